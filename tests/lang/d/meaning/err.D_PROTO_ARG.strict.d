/* How strict an address is written is known beforehand. */
BEGIN { inet_ntoa6((int *)0, pid); }

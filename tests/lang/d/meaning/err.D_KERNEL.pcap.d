/* Packets are the kernel's. */
BEGIN { pcap((void *)1, 2); }

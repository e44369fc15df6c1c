/* substr() counts from 0, negative numbers from the end; what is outside is left out. */
#pragma D option quiet
BEGIN { s = "abcdef"; printf("%s|%s|%s|%s\n", substr(s, 2), substr(s, 2, 3), substr(s, 0, 1), substr(s, 6)); }
BEGIN { printf("%s|%s|%s|%s\n", substr(s, -2), substr(s, -4, 2), substr(s, 1, -2), substr(s, 4, 99)); }
BEGIN { printf("%s|%s|%s\n", substr(s, 7), substr(s, -8, 4), substr(s, 3, 0)); exit(0); }

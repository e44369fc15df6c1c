/* lltostr() and strtoll() are each other's opposite, in other bases too. */
#pragma D option quiet
BEGIN { printf("%s %s %s %s\n", lltostr(0), lltostr(-5), lltostr(255, 16), lltostr(8, 8)); }
BEGIN { printf("%s %s\n", lltostr(-9223372036854775807 - 1), lltostr(5, 2)); }
BEGIN { printf("%d %d %d %d\n", strtoll("42"), strtoll(" -7x"), strtoll("ff", 16), strtoll("0x1f", 16)); }
BEGIN { printf("%d %d %d\n", strtoll(""), strtoll("z", 36), strtoll("1012", 2)); exit(0); }

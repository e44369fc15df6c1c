/* Constants are of C's types, by their size and suffix. */
#pragma D option quiet
BEGIN { printf("%d %d %d %d\n", sizeof (1), sizeof (2147483648), sizeof (0x80000000), sizeof (1L)); }
BEGIN { printf("%d %d %d %d\n", 0x80000000, 017, 'a', 0xffffffffffffffff); }
BEGIN { printf("%d %d %d\n", -1 < 1U, -1L < 1U, 'ab' == 0x6162); printf("%d\n", 18446744073709551615); }
BEGIN { printf("%d %d %d\n", sizeof ('abcd'), sizeof ('abcde'), 'abcde' == 0x6162636465); printf("%d\n", 'abcdefgh' & 255); exit(0); }

/* && and || leave out what does not matter any more, ^^ does not. */
#pragma D option quiet
BEGIN { x = 0; 0 && x++; 1 || x++; x = 1 && x++ || x; printf("%d\n", x); }
BEGIN { y = 0; (y++ == 0) ^^ (y++ == 0); z = y ? 5 : y++; printf("%d %d\n", y, z); exit(0); }

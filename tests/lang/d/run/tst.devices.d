/* Linux has 12 bits and 20: MAJOR() and MINOR() of <linux/kdev_t.h>. */
#pragma D option quiet
BEGIN { printf("%x %x %x %x\n", getmajor(0x12345678), getminor(0x12345678), getmajor(-1), getminor(0x800000801)); exit(0); }

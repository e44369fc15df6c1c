/* An element that nothing was stored in is 0, and is 0 again once 0 is stored. */
#pragma D option quiet
BEGIN { a[1] = 10; a[2] = 20; a[-1] = 30; }
BEGIN { printf("%d %d %d %d\n", a[1], a[2], a[-1], a[3]); a[1] = 0; a[2] = 5; a[2] = 6; }
BEGIN { printf("%d %d %d %d\n", a[1], a[2], a[-1], a[3]); exit(0); }

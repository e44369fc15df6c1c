/* Global variables keep their values from clause to clause. */
#pragma D option quiet
BEGIN { x = 1; y = x + 1; z = x; }
BEGIN { x += 10; printf("%d %d %d\n", x, y, z); exit(0); }

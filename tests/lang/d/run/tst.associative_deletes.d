/* Storing 0 makes room: as many elements as wanted can be in use one after another. */
#pragma D option quiet
#pragma D option dynvarsize=16k
int a[int];
int i; int n;
tick-1000hz { a[i] = 1; a[i + 1] = 1; a[i] = 0; a[i + 1] = 0; a[i + 2] = 1; a[i + 2] = 0; i += 3; n++; }
tick-1000hz /n == 60/ { a[0] = 42; printf("%d %d\n", a[0], a[i]); exit(0); }

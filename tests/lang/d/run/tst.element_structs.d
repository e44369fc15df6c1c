/* Elements may be structs, of which members are changed one by one. */
#pragma D option quiet
struct point { int x; char tag; long y[2]; };
struct point a[int];
self struct point here;
BEGIN { a[1].x = 5; a[1].y[1] = -9; a[2].tag = 'q'; self->here.x = 3; }
BEGIN { printf("%d %d %d %d\n", a[1].x, a[1].y[0], a[1].y[1], a[2].tag); }
BEGIN { a[3] = a[1]; a[1].x++; a[1].y[0] += 4; printf("%d %d %d %d\n", a[3].x, a[3].y[1], a[1].x, a[1].y[0]); }
BEGIN { self->here.y[0] = self->here.x << 2; a[4] = self->here; printf("%d %d\n", a[4].x, a[4].y[0]); exit(0); }

/* Structs are copied whole, from and to every kind of variable and memory; their parts are changed one at a time. */
#pragma D option quiet
struct point { int x; short y[3]; char c; };
struct point from, to, many[4];
self struct point mine;
struct point by[int, string];
BEGIN { from.x = -7; from.y[2] = 300; from.c = 'z'; this->n = 1; from.y[this->n]--; }
BEGIN { to = from; self->mine = to; by[1, "a"] = self->mine; this->p = by[1, "a"]; many[3] = this->p; }
BEGIN { to.x++; self->mine.x += 2; by[1, "a"].x *= 2; this->p.y[0] = 9; many[this->n + 2].y[this->n + 1] -= 1; }
BEGIN { printf("%d %d %d %d %d\n", from.x, to.x, self->mine.x, by[1, "a"].x, by[2, "a"].x); }
BEGIN { printf("%d %d %d %c\n", many[3].y[0], many[3].y[1], many[3].y[2], many[3].c); }
BEGIN { this->m = (struct point *)alloca(sizeof (struct point)); *this->m = from; this->m->x = 4; printf("%d %d %c\n", this->m->x, this->m->y[2], this->m->c); }
BEGIN { self->mine = 0; printf("%d %d\n", self->mine.x, self->mine.y[2]); }
BEGIN { many[this->n + 3].x = 1; printf("NO"); }
BEGIN { exit(0); }

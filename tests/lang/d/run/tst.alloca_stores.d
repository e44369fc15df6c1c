/* What alloca() gives can be written through pointers: whole, in parts, bit by bit; and nothing else can. */
#pragma D option quiet
enum eh { FIRSTVAL = 1, SECONDVAL = 2 };
struct part { long x; char tag[4]; };
struct thing { int a; char b[5]; union { char c; uint64_t d; } u; struct { void *e; uint64_t f; } s; enum eh h;
	unsigned int low : 3; int high : 5; struct part p; };
struct part whole; int i;
BEGIN
{
	t = (struct thing *)alloca(sizeof (struct thing));
	bcopy(alloca(sizeof (struct thing)), t, 0);
	t->a = 1; t->b[0] = 't'; t->b[1] = 'e'; t->b[2] = 's'; t->b[3] = 't'; t->b[4] = 0;
	t->u.d = 123456789; t->s.e = (void *)0xffff9b7aca7e0000; t->s.f = 987654321; t->h = SECONDVAL;
	t->low = 9; t->high = -3; whole.x = 77; whole.tag[0] = 'w'; t->p = whole;
	t->a += 41; t->s.f++; --t->low; t->b[i++] = 'T'; t->b[i++] -= 'a' - 'A'; t->high <<= 1;
	printf("%d %s %d %d %p %d %d %d %d %s\n", t->a, t->b, t->u.c, t->u.d, t->s.e, t->s.f, t->h, t->high, t->p.x, t->p.tag);
	printf("%d %d %d %d\n", i, t->a, t->low, t->high);
	this->n = (int *)alloca(12); this->n[0] = 5; this->n[1] = this->n[0] * 2; *(this->n + 2) = this->n[1]++;
	printf("%d %d %d %d\n", this->n[0], this->n[1], this->n[2], (this->n[2] = 6));
}
BEGIN { this->q = 16; *(int *)this->q = 1; }
BEGIN { *(int *)arg0 = 1; }
ERROR { printf("fault %d\n", arg4); n++; }
ERROR /n == 2/ { exit(0); }

typedef unsigned int count_t;
typedef struct point {
	int x, y;
	unsigned int flags : 3, : 0, rest : 29;
	union {
		char *name;
		uint64_t number;
	};
	struct { short a; } inner[4];
	int (*callback)(struct point *, const char *, ...);
} point_t;
enum color { RED, GREEN = 1 << 4, BLUE, };
struct forward;
count_t total;
point_t origin, *last;
int matrix[3][4];
string names[int, string];
self struct point *where;
this uint32_t small;
extern int elsewhere;
unsigned long long big;
const volatile char *const fixed;
int *(*handlers[8])(void);

BEGIN
{
	last = (point_t *)arg0;
	origin.x = last->y;
	total = sizeof (point_t) + sizeof (struct point *) + offsetof(point_t, y);
	names[1, "a"] = stringof(last->name);
	matrix[1][2] = GREEN | (int)'x';
	self->where = &origin;
	this->small = (uint32_t)~0ULL >> 3;
}

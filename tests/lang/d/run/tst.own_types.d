/* D` and C` before the name of a type say that it is one of the program, or of D itself. */
#pragma D option quiet

union record { int x; long y; char c; };
enum side { LEFT = 4, RIGHT };
typedef struct pair { short a; int b; } pair_t;

BEGIN
{
	this->p = (D`pair_t *)alloca(8);
	this->p->b = 9;
	this->side = (enum D`side)5;
	printf("%d %d %d\n", offsetof(union D`record, y), offsetof(D`pair_t, b), offsetof(D`struct pair, b));
	printf("%d %d %d %d\n", sizeof (union D`record), sizeof (D`union record), sizeof (D`pair_t), sizeof (enum D`side));
	printf("%d %d\n", sizeof (C`int32_t), sizeof (C`int));
	printf("%d %d\n", this->p->b, this->side == RIGHT);
	exit(0);
}

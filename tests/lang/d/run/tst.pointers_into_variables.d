/* Elements and members of D's own variables have addresses, and can be read through them as in C. */
#pragma D option quiet
struct pair { int left; short right[3]; };
int numbers[4]; struct pair both; this long local[2];
BEGIN
{
	numbers[1] = 11; numbers[2] = 22; both.right[2] = 7; this->local[1] = 1 << 20;
	p = &numbers[1]; q = &both.right[2]; this->r = &this->local[1];
	printf("%d %d %d %d %d\n", *p, p[1], *(p + 1), *q, *this->r);
	printf("%d %d\n", &numbers[3] - p, (long)&both.right[1] - (long)&both.left);
	printf("%d %d\n", ((int *)numbers)[2], *(short *)((char *)&both.left + 8));
}
BEGIN { printf("%d\n", *p + *this->r); }
END { printf("%d\n", p[1]); }
BEGIN { exit(0); }

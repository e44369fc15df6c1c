/* As many variables as fit dynvarsize by their own bytes: three of four bytes each. A fourth one is dropped. */
#pragma D option quiet
#pragma D option dynvarsize=15
BEGIN
{
	self->a = 1;
	self->b = 2;
	self->c = 3;
	self->d = 4;
	printf("%d %d %d %d\n", self->a, self->b, self->c, self->d);
	self->a = 0;
	self->d = 5;
	printf("%d %d %d %d", self->a, self->b, self->c, self->d);
	exit(0);
}

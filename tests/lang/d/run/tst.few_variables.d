/* However small dynvarsize is, a few variables have room. */
#pragma D option quiet
#pragma D option dynvarsize=16
struct pair { int first; int second; };
self struct pair p;
this struct pair made;
BEGIN
{
	this->made.first = 7;
	this->made.second = 8;
	self->p = this->made;
	self->a = 1;
	self->b = "text";
	list[1] = 2;
	printf("%d %d %d %s %d", self->p.first, self->p.second, self->a, self->b, list[1]);
	exit(0);
}

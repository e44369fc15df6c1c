/* alloca() gives memory to which copyinto() and bcopy() write, and which is read by pointers. */
#pragma D option quiet
BEGIN
{
	this->a = (char *)alloca(8); this->b = (int *)alloca(8);
	printf("%d %d\n", this->a[0], this->b[1]);
	exit(0);
}

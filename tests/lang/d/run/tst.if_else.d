/* if chooses what is done, however deep; what is behind it is done in any case. */
#pragma D option quiet
int x;
BEGIN
{
	if (x == 0) printf("zero\n"); else printf("not zero\n");
	if (x) { printf("no\n"); } else if (x == 1) { printf("one\n"); } else { x = 7; if (x > 5) printf("%d\n", x); }
	if (1) printf("always\n"); else trace(nonesuch);
	x++;
	printf("end %d\n", x);
	exit(0);
}

/* The result of an operator keeps its 64 bits in aggregations, as an argument of a function, and as a distance. */
#pragma D option quiet
int i;
BEGIN
{
	i = 1000000000;
	@least = min(i * 1075064400);
	@most = max(1075064400 * 1000000000);
	@total[1] = sum(i * 10);
	@total[1] = sum(i * 10);
	printf("%s %s\n", lltostr(i * 100), lltostr(i * 100, 16));
	printf("%d\n", (uint64_t)((char *)0 + i * 8));
	printa("%@d", @least);
	printa(" %@d", @most);
	printa(" %d %@d\n", @total);
	exit(0);
}

/* The higher rank of two operands is the result's, and nothing is promoted; 64 bits are kept until they are stored. */
#pragma D option quiet
int8_t c; uint8_t d; int16_t s; uint16_t t; int i; uint32_t u; int64_t l;
BEGIN
{
	c = -3; d = 250; s = -300; t = 65000; i = 1 << 30; u = 4000000000;
	printf("%d %d %d %d %d\n", c + d, d + d, s * s, t + t, c + t);
	printf("%d %d %d %d\n", -d, ~d, -c, u + c);
	l = i * i; printf("%d %d %d\n", l, i * i, i * i / i);
	l = (int)(i * 4); printf("%d %d %d\n", l, i << 100, i << -6);
	i = i * 8 / 16; printf("%d\n", i);
	exit(0);
}

/* Addresses of the network as text. Their structs are known. */
#pragma D option quiet
in6_addr_t *six;
struct in_addr *four;
BEGIN
{
	four = alloca(sizeof (struct in_addr));
	four->s_addr = htonl(0x0a000102);
	printf("%d %s %s\n", sizeof (struct in6_addr), inet_ntop(AF_INET, four), inet_ntoa((uint32_t *)four));
	six = alloca(sizeof (struct in6_addr));
	six->in6_u.u6_addr32[0] = six->in6_u.u6_addr32[1] = six->in6_u.u6_addr32[2] = six->in6_u.u6_addr32[3] = 0;
	printf("%s\n", inet_ntop(AF_INET6, six));
	six->in6_u.u6_addr32[3] = htonl(0x7f000001);
	printf("%s %s %s\n", inet_ntoa6(six), inet_ntoa6(six, 1), inet_ntop(AF_INET6, six));
	six->in6_u.u6_addr8[10] = 0xff;
	six->in6_u.u6_addr8[11] = 0xff;
	printf("%s %s\n", inet_ntoa6(six), inet_ntoa6(six, 1));
	six->in6_u.u6_addr16[0] = htons(0x2001);
	printf("%s\n", inet_ntoa6(six));
}
BEGIN { trace(inet_ntop(7, alloca(16))); }
BEGIN { trace(inet_ntoa6(NULL)); }
tick-5ms { exit(0); }

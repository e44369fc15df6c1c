/* Names of types that Linux has are there without a kernel. */
#pragma D option quiet
__u8 byte;
__s64 wide;
BEGIN {
	byte = 300;
	wide = -1;
	printf("%d %d\n", byte, wide);
	printf("%d %d %d %d %d\n", sizeof (bool), sizeof (__u16), sizeof (uint), sizeof (ulong), sizeof (ipaddr_t));
	exit(0);
}

/* In BEGIN registers are those of the tracer's own thread, whose stack is below the kernel's half of the addresses. */
#pragma D option quiet
BEGIN
{
	printf("%d %d", uregs[R_PC] > 0x1000 && uregs[R_PC] >> 47 == 0, uregs[R_SP] > 0x1000 && uregs[R_SP] >> 47 == 0);
	exit(0);
}
ERROR { exit(1); }

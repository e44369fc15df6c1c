/* The numbers of registers are those of struct pt_regs; narrow names mean the whole registers. */
#pragma D option quiet
BEGIN
{
	printf("%d %d %d %d %d %d\n", R_R15, R_RBX, R_ERR, R_RIP, R_RSP, R_GS);
	printf("%d %d %d %d %d\n", R_TRAPNO, R_PC, R_SP, R_R0, R_R1);
	printf("%d", R_EBX == R_RBX && R_ECX == R_RCX && R_EDX == R_RDX && R_ESI == R_RSI && R_EDI == R_RDI);
	printf("%d\n", R_EBP == R_RBP && R_EAX == R_RAX && R_EIP == R_RIP && R_EFL == R_RFL && R_ESP == R_RSP);
	exit(0);
}

/* Where no process fired the probe there is none to be signalled, or written to: a fault, and nothing is done to gilk. */
#pragma D option quiet
#pragma D option destructive

BEGIN
{
	raise(SIGKILL);
}

BEGIN
{
	stop();
}

BEGIN
{
	copyout(alloca(8), 4096, 8);
}

BEGIN
{
	copyoutstr("text", 4096, 8);
}

BEGIN
{
	chill(500000001);
}

BEGIN
{
	chill(1);
	printf("%d %d\n", ipl, vtimestamp == vtimestamp && vtimestamp > 0);
	exit(0);
}

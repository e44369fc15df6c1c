#pragma D option quiet
#pragma D option defaultargs
inline int OPT_elapsed = $1;
inline int OPT_name = $2;
inline string NAME = $$3;
inline int FILTER = OPT_name | OPT_elapsed ? 1 : 0;

syscall:::entry
/OPT_name == 1 && NAME == execname ? 1 : OPT_name == 0/
{
	self->start = timestamp;
	OPT_elapsed ? printf("%8d ", timestamp / 1000) : 1;
	@calls[probefunc] = count();
}

dtrace:::END
{
	OPT_elapsed == 1 ? printa("%-20s %@d\n", @calls) : 1;
}

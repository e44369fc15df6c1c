#!/usr/bin/env -S gilk-dtrace -s
/* System calls of a program, one a line.
 *
 *     syscalls.d -p PID [TIMES]       TIMES: 1 to see how long each took, too
 */

#pragma D option quiet
#pragma D option defaultargs
#pragma D option switchrate=10hz

inline int OPT_times = $1;

BEGIN
{
	OPT_times ? printf("%10s ", "NSECS") : 1;
	printf("%6s %s\n", "TID", "SYSCALL(args) = RESULT");
}

syscall:::entry
{
	self->name = probefunc;
	self->began = timestamp;
	self->first = arg0;
	self->second = arg1;
	self->third = arg2;
}

syscall:::return
/self->name == probefunc/
{
	OPT_times ? printf("%10d ", timestamp - self->began) : 1;
	printf("%6d %s(0x%x, 0x%x, 0x%x) = ", tid, probefunc, self->first, self->second, self->third);
	printf("%d%s\n", errno ? -1 : (int64_t)arg1, errno ? strjoin(", errno ", lltostr(errno)) : "");
	self->name = 0;
	self->began = 0;
	self->first = 0;
	self->second = 0;
	self->third = 0;
}

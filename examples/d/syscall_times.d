#!/usr/bin/env -S gilk-dtrace -s
/* System calls by how much time they took in all.
 *
 *     syscall_times.d -p PID
 */

#pragma D option quiet

syscall:::entry
{
	self->began = timestamp;
}

syscall:::return
/self->began/
{
	@count[probefunc] = count();
	@time[probefunc] = sum(timestamp - self->began);
	@worst[probefunc] = max(timestamp - self->began);
	self->began = 0;
}

END
{
	setopt("aggsortpos", "1");
	printf("%-20s %10s %16s %14s\n", "SYSCALL", "COUNT", "NSECS", "WORST");
	printa("%-20s %@10d %@16d %@14d\n", @count, @time, @worst);
}

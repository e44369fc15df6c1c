#!/usr/bin/env -S gilk-dtrace -s
/* Where the time goes, by function of a module: in the function itself, and with what it calls.
 *
 *     times.d -p PID MODULE
 */

#pragma D option quiet
#pragma D option aggsortpos=1

pid$target:$1::entry
{
	self->depth++;
	self->began[self->depth] = timestamp;
	self->below[self->depth] = 0;
}

pid$target:$1::return
/self->began[self->depth]/
{
	this->all = timestamp - self->began[self->depth];
	@calls[probefunc] = count();
	@own[probefunc] = sum(this->all - self->below[self->depth]);
	@all[probefunc] = sum(this->all);
	self->began[self->depth] = 0;
	self->below[self->depth] = 0;
	self->depth--;
	self->below[self->depth] += this->all;
}

END
{
	normalize(@own, 1000);
	normalize(@all, 1000);
	printf("%-32s %10s %12s %12s\n", "FUNCTION", "CALLS", "OWN us", "ALL us");
	printa("%-32s %@10d %@12d %@12d\n", @calls, @own, @all);
}

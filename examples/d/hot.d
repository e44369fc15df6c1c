#!/usr/bin/env -S gilk-dtrace -s
/* Where threads are, 197 times a second: the functions, and the stacks that lead there most.
 *
 *     hot.d -p PID
 */

#pragma D option quiet

profile-197
/arg1/
{
	@functions[ufunc(arg1)] = count();
	@stacks[ustack(12)] = count();
}

END
{
	trunc(@functions, 20);
	trunc(@stacks, 3);
	printa("%@8d %A\n", @functions);
	printa("%k%@8d\n", @stacks);
}

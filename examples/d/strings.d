#!/usr/bin/env -S gilk-dtrace -s
/* Variables that a shell looks up most, every second.
 *
 *     strings.d -p PID                the process is a bash
 */

#pragma D option quiet

pid$target:bash:find_variable:entry
{
	@[copyinstr(arg0)] = count();
}

tick-1s,
END
{
	trunc(@, 10);
	printf("%Y\n", walltimestamp);
	printa("%16s %@10d\n", @);
	clear(@);
}

#!/usr/bin/env -S gilk-dtrace -s
/* Where processors are in the kernel, by samples: functions, modules, and the number of samples in user mode.
 *
 *     gilk dtrace --on lab -s hotkernel.d -c COMMAND
 */

#pragma D option quiet

profile-997
/arg0/
{
	@functions[func(arg0)] = count();
	@modules[mod(arg0)] = count();
}

profile-997
/arg1/
{
	users++;
}

END
{
	trunc(@functions, 20);
	printa("%-50a %@8d\n", @functions);
	printa("%-50a %@8d\n", @modules);
	printf("%-50s %8d\n", "user mode", users);
}

#!/usr/bin/env -S gilk-dtrace -s
/* Memory that the kernel allocates, by size and by the function that allocates it.
 *
 *     gilk dtrace --on lab -s kmalloc.d -c COMMAND
 */

#pragma D option quiet

fbt::__kmalloc:entry
{
	@sizes = quantize(args[0]);
	@callers[func(caller)] = sum(args[0]);
}

END
{
	trunc(@callers, 15);
	printf("bytes\n");
	printa(@sizes);
	printa("%-50a %@10d\n", @callers);
}

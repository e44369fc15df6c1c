#!/usr/bin/env -S gilk-dtrace -s
/* The last calls before a program ends: nothing is printed until then.
 *
 *     lastwords.d -c COMMAND
 */

#pragma D option bufpolicy=ring
#pragma D option bufsize=16k
#pragma D option quiet

pid$target:a.out::entry
{
	printf("%d %s\n", timestamp, probefunc);
}

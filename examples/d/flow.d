#!/usr/bin/env -S gilk-dtrace -s
/* What one function does: all that is called from it, in the program itself.
 *
 *     flow.d -p PID FUNCTION
 *
 * After Figure 2 of the paper.
 */

#pragma D option flowindent

pid$target:a.out:$1:entry
{
	self->inside++;
}

pid$target:a.out::entry,
pid$target:a.out::return
/self->inside/
{
}

pid$target:a.out:$1:return
/self->inside/
{
	self->inside--;
}

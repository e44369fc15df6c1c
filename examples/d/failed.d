#!/usr/bin/env -S gilk-dtrace -s
/* What the program did on the way to a system call that failed, and nothing of those that did not.
 *
 *     failed.d -p PID FUNCTION SYSCALL
 *
 * FUNCTION is the one within which SYSCALL is made. After Figure 4 of the paper.
 */

#pragma D option flowindent
#pragma D option nspec=8

self int spec;

pid$target:a.out:$1:entry
/!self->spec/
{
	self->spec = speculation();
}

pid$target:a.out::entry,
pid$target:a.out::return
/self->spec/
{
	speculate(self->spec);
}

syscall::$2:return
/self->spec/
{
	speculate(self->spec);
	printf("errno %d", errno);
}

syscall::$2:return
/self->spec && errno != 0/
{
	commit(self->spec);
	self->spec = 0;
}

pid$target:a.out:$1:return
/self->spec/
{
	discard(self->spec);
	self->spec = 0;
}

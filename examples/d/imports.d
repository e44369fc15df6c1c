#!/usr/bin/env -S gilk-dtrace -s
/* What a Python program imports, and how long each takes: with what it imports in turn, and alone.
 *
 *     imports.d -c 'python3 PROGRAM'          a python3 that was built with its probes, as Debian's is
 */

#pragma D option quiet

python$target:::import-find-load-start
{
	self->depth++;
	self->began[self->depth] = timestamp;
	self->below[self->depth] = 0;
}

python$target:::import-find-load-done
/self->began[self->depth]/
{
	this->all = timestamp - self->began[self->depth];
	printf("%8d us %8d us alone %*s%s\n", this->all / 1000, (this->all - self->below[self->depth]) / 1000,
	    self->depth * 2, "", copyinstr(arg0));
	self->began[self->depth] = 0;
	self->depth--;
	self->below[self->depth] += this->all;
}

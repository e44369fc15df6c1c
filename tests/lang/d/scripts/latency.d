/* How long each system call takes, by program. */
syscall:::entry { self->start[probefunc] = timestamp; }

syscall:::return
/self->start[probefunc]/
{
	this->took = timestamp - self->start[probefunc];
	@times[execname, probefunc] = quantize(this->took);
	@all = lquantize(this->took / 1000, 0, 10000, 100);
	@deep["ns"] = llquantize(this->took, 10, 0, 9, 20);
	self->start[probefunc] = 0;
}

profile:::tick-10sec, dtrace:::END
{
	normalize(@times, 1000);
	trunc(@times, 10);
	printa("%16s %-16s %@d\n", @times);
	clear(@times);
}

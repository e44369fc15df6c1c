#pragma D option quiet
#pragma D option switchrate=10hz

dtrace:::BEGIN
{
	printf("%-20s %6s %6s %s\n", "TIME", "UID", "PID", "PATH");
}

syscall::open:entry,
syscall::openat:entry
/pid != $pid/
{
	self->path = probefunc == "open" ? arg0 : arg1;
	self->ok = 1;
}

syscall::open:return,
syscall::openat:return
/self->ok && (int)arg0 < 0/
{
	printf("%-20Y %6d %6d %s (%d)\n", walltimestamp, uid, pid, copyinstr(self->path), errno);
}

syscall::open*:return
/self->ok/
{
	self->path = 0;
	self->ok = 0;
}

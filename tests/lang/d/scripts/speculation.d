syscall::open:entry { self->spec = speculation(); }
fbt::: /self->spec/ { speculate(self->spec); printf("%s", probefunc); }
syscall::open:return /self->spec && errno != 0/ { commit(self->spec); self->spec = 0; }
syscall::open:return
/self->spec && errno == 0/
{
	discard(self->spec);
	self->spec = 0;
}

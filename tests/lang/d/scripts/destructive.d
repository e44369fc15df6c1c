#pragma D option destructive
syscall::uname:entry /execname == $$1/ { self->addr = arg0; }
syscall::uname:return /self->addr/ { copyoutstr("gilk", self->addr, 257); raise(SIGSTOP); system("ps -p %d", pid); }
tick-5s { freopen("/tmp/out.%d", x); ftruncate(); setopt("quiet", "no"); stop(); }

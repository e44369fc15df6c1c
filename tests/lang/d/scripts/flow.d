#pragma D option flowindent
syscall::read:entry /guard++ == 0/ { self->traced = 1; }
fbt::: /self->traced/ { }
syscall::read:return /self->traced/ { self->traced = 0; exit(0); }

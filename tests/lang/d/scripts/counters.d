int calls; self int depth; this int n;
string last_name;
int seen[string, int];

fbt::vfs_*:entry { self->depth++; calls += 1; last_name = probefunc; seen[probefunc, tid]++; }
fbt::vfs_*:return /self->depth > 0/ { self->depth--; this->n = seen[probefunc, tid]; seen[probefunc, tid] = 0; }
tick-1m { printf("%d %s\n", calls, last_name); calls = 0; }
ERROR { printf("fault %d at %x\n", arg4, arg5); }

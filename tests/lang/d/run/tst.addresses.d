/* Addresses that have no name are numbers: those of no process, and those of the kernel that are none of its symbols. */
#pragma D option quiet
BEGIN { printf("%a %A %a\n", 4096, 4097, 0xffffffffffffffff); sym(4096); func(4096); mod(4096); usym(4096); exit(0); }

/* The program says that it is wrong. */
#pragma D error "not on this machine"

/* In quiet mode trace() prints nothing but the value. */
#pragma D option quiet
BEGIN { trace(1); trace((char)-2); trace("s"); trace(1UL << 63); trace((short)-3); exit(0); }

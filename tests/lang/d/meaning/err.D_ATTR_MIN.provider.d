#pragma D option amin=Evolving/Evolving/ISA
syscall:::entry { trace(probefunc); } /* as private as the names of system calls are */

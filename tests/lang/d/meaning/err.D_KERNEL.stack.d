/* Where a thread of a process is in the kernel is not known: no clause runs there. */
profile-97 { stack(); }

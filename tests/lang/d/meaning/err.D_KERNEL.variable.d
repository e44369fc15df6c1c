/* A variable of the kernel has no value in a process. */
BEGIN { trace(curthread); }

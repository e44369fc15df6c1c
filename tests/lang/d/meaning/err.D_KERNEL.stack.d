/* The kernel's stack is not to be had: no clause runs there. */
BEGIN { stack(); }

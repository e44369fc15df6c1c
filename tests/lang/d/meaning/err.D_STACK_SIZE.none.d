/* The same goes for the kernel's. */
BEGIN { stack(0); }

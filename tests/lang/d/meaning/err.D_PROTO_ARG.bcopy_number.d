/* bcopy() writes to memory of alloca(), and a number is none. */
BEGIN { bcopy("a", (void *)64, 1); }

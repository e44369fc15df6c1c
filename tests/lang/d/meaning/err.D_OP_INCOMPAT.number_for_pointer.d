/* A number becomes a pointer by a cast alone; the constant 0 is the null pointer. */
BEGIN { p = (int *)8; p = 0; p = (int *)pid; p = pid; }

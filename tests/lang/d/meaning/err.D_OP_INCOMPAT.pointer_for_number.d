/* The first assignment makes it a number, which no pointer is. */
BEGIN { x[1] = pid; x[2] = (int *)8; }

/* Nor is a number with a pointer added to it a number. */
BEGIN { x = 1; x += (int *)4; }

/* Nor is it assigned as a whole. */
BEGIN { a[1] = 1; a = 2; }

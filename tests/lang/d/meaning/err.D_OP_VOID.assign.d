/* Nor can it be assigned. */
BEGIN { x = (void)1; }

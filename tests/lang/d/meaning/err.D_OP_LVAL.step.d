/* Nor be increased. */
BEGIN { 1++; }

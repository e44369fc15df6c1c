/* An array has as many keys as at first. */
BEGIN { a[1, 2] = 1; trace(a[1]); }

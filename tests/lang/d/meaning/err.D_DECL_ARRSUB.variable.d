/* An array's size is a constant. */
BEGIN { n = 3; } int a[n];

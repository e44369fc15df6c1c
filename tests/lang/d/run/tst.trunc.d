/* trunc() keeps the largest rows, of a negative number the smallest, and without one none. */
#pragma D option quiet
BEGIN { @a[1] = sum(10); @a[2] = sum(20); @a[3] = sum(30); @b[1] = sum(1); @b[2] = sum(2); @c[1] = count(); exit(0); }
END { trunc(@a, 2); trunc(@b, -1); trunc(@c); printa("%d %@d\n", @a); printa("%d %@d\n", @b); printa("%d %@d\n", @c); }

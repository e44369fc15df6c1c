/* sum(), min(), max(), avg() and stddev() of negative and large values. */
#pragma D option quiet
BEGIN { @s = sum(-5); @s = sum(3); @l = min(7); @l = min(-9); @h = max(-7); @h = max(-9); }
BEGIN { @a = avg(-5); @a = avg(-4); @b = avg(10); @b = avg(11); @big = sum(1L << 62); @big = sum(1L << 62); }
BEGIN { @z = min(9223372036854775807); @y = max(-9223372036854775807 - 1); @d = stddev(2); @d = stddev(4); @d = stddev(9); }
BEGIN { exit(0); }
END { printa("%@d ", @s); printa("%@d ", @l); printa("%@d ", @h); printa("%@d ", @a); printa("%@d\n", @b); }
END { printa("%@d\n", @big); printa("%@d\n", @z); printa("%@d\n", @y); printa("%@d\n", @d); }

/* normalize() divides what is printed, denormalize() takes that back. */
#pragma D option quiet
BEGIN { @a["x"] = sum(100); @a["y"] = sum(-35); @b = avg(90); exit(0); }
END { normalize(@a, 10); printa("%s %@d\n", @a); normalize(@b, 9); printa("%@d\n", @b); }
END { denormalize(@a); printa("%s %@d\n", @a); }

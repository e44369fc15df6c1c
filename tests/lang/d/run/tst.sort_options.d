/* Options say by what rows are sorted. */
#pragma D option quiet
#pragma D option aggsortkey
#pragma D option aggsortrev
BEGIN { @a[1] = sum(10); @a[3] = sum(20); @a[2] = sum(30); exit(0); }
END { printa("%d %@d\n", @a); }

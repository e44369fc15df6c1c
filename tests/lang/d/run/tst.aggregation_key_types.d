/* Integer keys are converted to the type of the first ones; an array of characters is a string. */
#pragma D option quiet
char c[4];
BEGIN { c[0] = 'x'; @a[1, "x"] = count(); @a[1L, c] = count(); @a[(char)1, stringof(c)] = count(); @b[-1] = count(); exit(0); }
END { printa("%d %s %@d\n", @a); printa("%d\n", @b); }

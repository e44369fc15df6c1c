/* count() counts. */
#pragma D option quiet
BEGIN { @ = count(); @a = count(); @a = count(); exit(0); }
END { printa("%@d\n", @); printa("%@u|%@5d|\n", @a); }

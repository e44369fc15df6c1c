/* printa() leaves out keys that its format does not name. */
#pragma D option quiet
BEGIN { @a["x", -1] = sum(-255); exit(0); }
END { printa("%-4s|%4d|%@8d|%@x|\n", @a); printa("%@d\n", @a); printa("text\n", @a); }

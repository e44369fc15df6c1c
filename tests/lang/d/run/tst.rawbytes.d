/* Without a format strings are printed as bytes; with one they are strings. */
#pragma D option quiet
#pragma D option rawbytes
#pragma D option strsize=16
BEGIN { trace("a string"); @["key"] = count(); printf("%s\n", "a string"); printa(@); printa("%s %@d\n", @); exit(0); }

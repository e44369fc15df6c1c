/* $1 is a number as it stands, $$2 a string, and $0 the program's name. */
#pragma D option quiet
BEGIN { printf("%d %s %s %d\n", $1 + 1, $$2, $$0, $3); exit($1); }

/* A string can be written to memory that alloca() gave, through a pointer to one and nowhere else. */
#pragma D option quiet
string part;
BEGIN { x = (string *)alloca(sizeof (string) + 1); *x = "abc"; printf("%s ", *x); part = strjoin("de", "f"); *x = part; printf("%s ", *x); }
BEGIN { y = (string *)alloca(16); *y = "fifteen letters"; printf("%s %s\n", *y, (*y = strjoin(part, "gh"))); }
BEGIN { z = (string *)4096; *z = "abcd"; printf("never"); }
BEGIN { exit(0); }

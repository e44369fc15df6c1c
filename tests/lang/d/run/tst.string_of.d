/* stringof makes a string of characters in a variable, whether they end or not. */
#pragma D option quiet
char full[3]; char half[4];
BEGIN { full[0] = 'a'; full[1] = 'b'; full[2] = 'c'; half[0] = 'x'; }
BEGIN { printf("%s %s %d %d\n", stringof(full), stringof(half), strlen(full), full == "abc"); x = stringof(half); trace(x); exit(0); }

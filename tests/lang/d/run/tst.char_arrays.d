/* An array of characters is a string wherever one is wanted. */
#pragma D option quiet
char c[4]; string s;
BEGIN { c[0] = 'a'; c[1] = 'b'; s = c; printf("%s %s %d %d %s\n", s, c, strlen(c), c == "ab", pid > 0 ? c : "no"); }
BEGIN { a[s] = 5; printf("%d %s\n", a[c], strjoin(c, c)); exit(0); }

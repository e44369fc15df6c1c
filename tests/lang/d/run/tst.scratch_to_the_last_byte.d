/* Room is given in whole words, so all of scratchsize can be had at once; then none is left. */
#pragma D option quiet
#pragma D option scratchsize=9
string a;
BEGIN { a = "012345678"; s = (char *)alloca(9); bcopy(a, s, 9); printf("%c%c\n", s[0], s[8]); }
BEGIN { s = (char *)alloca(9); bcopy(a, s, 17); printf("unreached\n"); }
BEGIN { s = (char *)alloca(9); s = (char *)alloca(1); printf("unreached\n"); }
BEGIN { exit(0); }

/* There is one speculation unless more are asked for; 0 is none, and nothing is recorded for it. */
#pragma D option quiet
BEGIN { a = speculation(); b = speculation(); printf("%d %d\n", a, b); }
BEGIN { speculate(b); printf("nowhere\n"); }
BEGIN { commit(b); discard(b); }
BEGIN { exit(0); }

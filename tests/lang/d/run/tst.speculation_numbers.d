/* A number that speculation() gives to nobody: to commit or discard is a fault, but of 0; to speculate ends the clause. */
#pragma D option quiet
#pragma D option nspec=2
BEGIN { speculate(0); n = 1; }
BEGIN { speculate(7); n = 2; }
BEGIN { speculate(1); n = 3; }
BEGIN { printf("%d\n", n); }
BEGIN { commit(0); discard(0); commit(2); discard(1); n = 4; }
BEGIN { commit(3); n = 5; }
BEGIN { discard(-1); n = 6; }
BEGIN { this->s = speculation(); speculate(this->s); printf("speculated "); n += 10; }
BEGIN { commit(this->s); n += 100; }
BEGIN { printf("%d\n", n); }
tick-5ms { exit(0); }

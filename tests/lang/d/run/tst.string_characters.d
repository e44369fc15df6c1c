/* A string's characters are reached by index: 0 behind its end, a fault where no string could have one. */
#pragma D option quiet
#pragma D option strsize=16
string all[int];
BEGIN { this->s = "clause"; self->s = "thread"; s = "global"; all[7] = "array"; n = 2; }
BEGIN { printf("%c%c%c%c%c%c\n", this->s[0], self->s[1], s[n], all[7][n + 1], "text"[3], probename[n]); }
BEGIN { trace(s[1]); printf(" %d %d\n", s[6], s[9]); }
BEGIN { s = "\xe9"; printf("%d\n", s[0]); }
BEGIN { trace(s[17]); }
BEGIN { trace(s[n - 3]); }
tick-5ms { exit(0); }

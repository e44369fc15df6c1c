/* Clause-local variables are shared by the clauses of one firing, and begin as 0 with the next. */
#pragma D option quiet
this int x;
tick-1ms { printf("%d ", this->x); this->x = 5; }
tick-1ms { printf("%d\n", ++this->x); n++; }
tick-1ms /n == 2/ { exit(0); }

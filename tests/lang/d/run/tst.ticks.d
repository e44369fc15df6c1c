/* Clauses that name the same probe twice, or in two ways, are run once, in the order of the text. */
#pragma D option quiet
tick-1ms, tick-1ms { printf("a"); }
tick-1000hz { this->never = 1; }
tick-1ms { printf("b\n"); exit(0); }

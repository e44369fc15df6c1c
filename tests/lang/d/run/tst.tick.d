/* A tick comes again and again, and exit() ends that. */
#pragma D option quiet
tick-2ms { i++; @n = count(); }
tick-2ms /i == 5/ { exit(0); }
END { printf("%d", i); printa(" %@d\n", @n); }

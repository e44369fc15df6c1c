/* system() is done in the order of the output. */
#pragma D option quiet
#pragma D option destructive
BEGIN { printf("a\n"); system("echo %d %s", 1, "x"); printf("b\n"); freopen("/tmp/%s", "f"); ftruncate(); exit(0); }

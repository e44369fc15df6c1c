/* The first exit() decides, and nothing but END comes after it, which has the last word. */
#pragma D option quiet
BEGIN { printf("one\n"); exit(3); printf("two\n"); }
BEGIN { printf("not this\n"); exit(4); }
tick-1ms { printf("nor this\n"); }
END { printf("end\n"); exit(5); }

/* Enumerators count on from the one before. */
#pragma D option quiet
enum color { RED, GREEN = 5, BLUE, BLACK = -1, GREY };
enum color c;
BEGIN { c = BLUE; printf("%d %d %d %d %d\n", RED, GREEN, c, BLACK, GREY); printf("%d %d\n", sizeof (c), c == BLUE); exit(0); }

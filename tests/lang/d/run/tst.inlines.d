/* An inline stands for its value, whatever that is by then. */
#pragma D option quiet
inline int TWO = 1 + 1; inline string NAME = "gilk"; inline int AGAIN = TWO * 3; int x; inline int NOW = x * 10;
BEGIN { x = 4; printf("%d %s %d %d", TWO, NAME, AGAIN, NOW); x++; printf(" %d\n", NOW); exit(0); }

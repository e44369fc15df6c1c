/* Strings are compared by their bytes. */
#pragma D option quiet
BEGIN { printf("%d %d %d %d\n", "a" == "a", "a" != "b", "a" < "b", "ab" > "b"); }
BEGIN { x = "abc"; printf("%d %d %d %d\n", x == "abc", x < "abcd", x >= "", "Z" < "a"); }
BEGIN { printf("%d %d\n", "\377" > "a", "" == NULL); exit(0); }

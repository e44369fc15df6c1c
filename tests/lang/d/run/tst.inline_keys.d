/* An inline with keys has parameters; each is evaluated once, from left to right, and seen only inside. */
#pragma D option quiet
inline int add[int a, int b] = a + b * 2;
inline string which[int a] = a > 1 ? "many" : "one";
inline int twice[int a] = add[a, 0] + add[0, a] / 2;
inline string both[string a] = strjoin(a, a);
inline uint8_t low[int a] = a;
int i, a;
BEGIN { i = 1; a = 100; printf("%d %d\n", add[i++, add[i, 3]], i); }
BEGIN { printf("%s %s %d %s\n", which[i], which[1], twice[i++], both[both["ab"]]); printf("%d %d\n", i, a); }
BEGIN { printf("%d %d\n", low[257], sizeof (low[1])); exit(0); }

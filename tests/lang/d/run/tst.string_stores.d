/* A character of a string that a variable holds can be stored, but not its last NUL. */
#pragma D option quiet
#pragma D option strsize=8
struct named { int number; string name; };
struct named one;
self string own;
BEGIN { s = "abcd"; s[1] = 'x'; printf("%s ", s); s[2] = '\0'; printf("%s %d\n", s, strlen(s)); }
BEGIN { @[s] = count(); t = "ax"; @[t] = count(); printa("%s %@d\n", @); }
BEGIN { this->s = "abc"; this->s[0]++; self->own = "abc"; self->own[1] += 2; by["key"] = "abc"; by["key"][2] = 'z';
	one.name = "abc"; one.name[i = 1] = 'y'; printf("%s %s %s %s\n", this->s, self->own, by["key"], one.name); }
BEGIN { s = "1234567890"; s[7] = '0'; printf("%s\n", s); }
BEGIN { s[8] = '9'; }
BEGIN { printf("%s\n", s); exit(0); }

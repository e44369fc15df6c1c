/* A string that is NULL is neither empty nor any other; to read it is a fault. It comes before all others. */
#pragma D option quiet
string s, t, empty, kept[int]; self string s; self string none; int n;
BEGIN
{
	printf("%d%d%d%d", empty == NULL, self->s == NULL, kept[1] == NULL, strchr("a", 'b') == NULL);
	s = NULL; e = "";
	printf(" %d%d%d%d%d%d", s == NULL, e == NULL, s < e, s <= e, s == e, e > s);
	self->s = "text"; kept[1] = self->s; printf(" %d%d", self->s != NULL, kept[1] == self->s);
	self->s = s; kept[1] = NULL; t = self->s; printf(" %d%d%d", self->s == NULL, kept[1] != NULL, t == s);
	s = "again"; printf(" %s %d\n", s, s == NULL);
}
BEGIN { this->s = strtok("", "."); printf("%d\n", this->s == NULL); trace(this->s); }
BEGIN { trace(self->none); self->none = "one"; }
BEGIN { trace(t[2]); }
BEGIN { trace(kept[7] + 3); }
BEGIN { @[n ? e : t] = count(); }
BEGIN { this->x = n ? t : e; printf("[%s]\n", this->x); n = 1; this->x = n ? t : e; trace(strlen(this->x)); }
ERROR { printf("fault %d at %d\n", arg4, arg5); }
tick-5ms { exit(0); }

/* Memory of alloca() may come to bcopy() by any way: predicates, members, memory, casts, conditions. */
#pragma D option quiet
struct s { char *p; long n; } st;
char *p; char *by[int];
BEGIN /(p = (char *)alloca(8)) != NULL/ { bcopy("predicate", p, 8); printf("%.8s\n", stringof(p)); }
BEGIN { this->from = st.p = (char *)alloca(8); bcopy("member", st.p, 7); printf("%s\n", stringof(this->from)); }
BEGIN { this->at = (char **)alloca(8); *this->at = (char *)alloca(8); bcopy("memory", *this->at, 7); printf("%s\n", stringof(*this->at)); }
BEGIN { this->n = (uint64_t)alloca(8); bcopy("number", (void *)this->n, 7); printf("%s\n", stringof(this->n)); }
BEGIN { by[1] = pid > 0 ? (char *)alloca(8) : NULL; bcopy("keyed", by[1], 6); printf("%s\n", stringof(by[1])); }
BEGIN { self->q = by[1] = (char *)alloca(8); self->q++; bcopy("moved", self->q, 6); printf("%s\n", stringof(self->q)); exit(0); }

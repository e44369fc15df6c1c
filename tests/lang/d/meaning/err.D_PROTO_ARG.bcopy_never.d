int *p; BEGIN { p = alloca(8); bcopy("a", p, 1); } BEGIN { q = p; bcopy("a", q + 1, 1); } BEGIN { this->r = (int *)9; }
BEGIN { bcopy("a", this->r, 1); }

/* A variable that is given such memory below has none yet when the clause above is over. */
char *p; BEGIN { bcopy("a", p, 1); } BEGIN { p = alloca(8); }

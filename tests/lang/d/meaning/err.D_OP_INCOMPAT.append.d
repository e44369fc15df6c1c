/* A string is not added to. */
int n; BEGIN { n += "a"; }

/* A string is not an index. */
int a[3]; BEGIN { trace(a["1"]); }

/* One that is not associative has one index. */
int a[3]; BEGIN { trace(a[1, 2]); }

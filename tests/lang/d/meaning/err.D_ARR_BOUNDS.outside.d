/* An array has no elements beyond its end. */
int a[3]; BEGIN { trace(a[3]); }

/* Arrays are assigned element by element. */
int a[3]; int b[3]; BEGIN { a = b; }

/* And not beyond what makes sense. */
int a[1000000000];

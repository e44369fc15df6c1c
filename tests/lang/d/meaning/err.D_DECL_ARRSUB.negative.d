/* And not negative. */
int a[-1];

/* Nor is it for printf(). */
BEGIN { @a = count(); printf("%d", @a); }

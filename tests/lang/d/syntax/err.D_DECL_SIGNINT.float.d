/* Only integers have a sign. */
unsigned double x;

/* Only integers have a sign. */
unsigned string x;

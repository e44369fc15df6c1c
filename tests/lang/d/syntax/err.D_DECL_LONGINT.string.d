/* Only numbers are long. */
long string x;

/* char is neither short nor long. */
long char x;

/* It has a type. */
BEGIN { print((void *)arg0); }

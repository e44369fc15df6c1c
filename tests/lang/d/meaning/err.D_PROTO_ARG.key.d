/* Keys are of the types that they were of at first. */
BEGIN { a[1] = 1; a["1"] = 2; }

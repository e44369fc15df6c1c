/* Numbers are computed beforehand. */
BEGIN { x = 4 / (3 - 3); }

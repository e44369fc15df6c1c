/* Keys stand in one pair of brackets. */
BEGIN { @a[1][2] = count(); }

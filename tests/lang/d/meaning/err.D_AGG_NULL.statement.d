/* An aggregation by itself does nothing. */
BEGIN { @a = count(); @a; }

/* An aggregation has as many keys as at first. */
BEGIN { @a[1, 2] = count(); @a[1] = count(); }

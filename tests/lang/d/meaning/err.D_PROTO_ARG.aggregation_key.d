/* An aggregation's keys too are of the types that they were of at first. */
BEGIN { @a[1] = count(); @a["1"] = count(); }

/* An aggregation has no value that could be traced. */
BEGIN { @a = count(); trace(@a); }

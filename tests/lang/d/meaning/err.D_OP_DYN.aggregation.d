/* An aggregation has no value. */
BEGIN { @a = count(); x = @a; }

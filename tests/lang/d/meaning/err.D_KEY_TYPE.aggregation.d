/* An aggregation is no key. */
BEGIN { @a = count(); x[@a] = 1; }

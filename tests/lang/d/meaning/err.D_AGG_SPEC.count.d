/* Aggregations are not speculative. */
BEGIN { speculate(1); @ = count(); }

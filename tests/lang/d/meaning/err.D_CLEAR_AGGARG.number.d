/* clear() is about an aggregation. */
BEGIN { clear(1); }

/* An aggregation is not assigned a value. */
BEGIN { @ = 1; }

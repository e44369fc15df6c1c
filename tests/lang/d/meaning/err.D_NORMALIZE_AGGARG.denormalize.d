/* denormalize() too. */
BEGIN { denormalize(1); }

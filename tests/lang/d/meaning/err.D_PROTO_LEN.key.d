/* sum() takes one. */
BEGIN { @ = sum(); }

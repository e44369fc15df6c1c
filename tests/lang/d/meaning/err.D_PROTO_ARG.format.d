/* A number is no format. */
BEGIN { printf(1); }

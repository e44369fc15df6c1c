/* An argument that is an integer fits 64 bits; the third of the tests does not. */
BEGIN { trace($1 + $3); }

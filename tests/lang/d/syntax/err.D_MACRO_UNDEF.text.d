/* An argument must be given. */
BEGIN { trace($$99); }

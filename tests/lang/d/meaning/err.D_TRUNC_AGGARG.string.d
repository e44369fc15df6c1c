/* trunc() too. */
BEGIN { trunc("a"); }

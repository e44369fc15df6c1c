/* What is cut has to be there. */
BEGIN { trunc(@none, 1); }

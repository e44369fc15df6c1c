/* What is normalized has to be there. */
BEGIN { normalize(@none, 1); }

/* What is cleared has to be there. */
BEGIN { clear(@none); }

/* A string and an integer are not compared. */
BEGIN { trace("a" == 1); }

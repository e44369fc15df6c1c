/* A string has no negative. */
BEGIN { trace(-"a"); }

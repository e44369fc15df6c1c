/* Strings are not added. */
BEGIN { trace("a" + "b"); }

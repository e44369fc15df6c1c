/* Nor are strings combined by &&. */
BEGIN { trace("a" && 1); }

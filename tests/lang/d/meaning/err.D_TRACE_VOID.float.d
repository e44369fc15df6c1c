/* Nor can a floating point value (yet). */
BEGIN { trace(*(long double *)8); }

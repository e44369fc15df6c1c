/* Nor can a floating point value (yet). */
BEGIN { trace(*(double *)8); }

/* A format is a string constant. */
BEGIN { x = "%d"; printf(x, 1); }

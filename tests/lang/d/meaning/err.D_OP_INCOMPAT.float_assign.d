/* Nor are they assigned. */
float d; BEGIN { d = d; }

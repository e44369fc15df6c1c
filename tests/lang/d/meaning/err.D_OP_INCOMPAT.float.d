/* There is no arithmetic on floating point values. */
double d; BEGIN { trace(d * 2); }

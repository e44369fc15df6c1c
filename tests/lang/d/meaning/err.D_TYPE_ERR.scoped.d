/* A type is of the image that is named. */
BEGIN { trace(((other`thing_t *)arg0)->a); }

/* A version is in quotes. */
#pragma D binding 1.0 x

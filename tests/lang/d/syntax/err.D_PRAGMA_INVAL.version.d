/* A version is made of numbers. */
#pragma D binding "one" x

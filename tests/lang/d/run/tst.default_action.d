/* A clause without actions records that its probe fired; one with assignments only does not. */
BEGIN { }
BEGIN { x = 1; }
BEGIN { exit(0); }

/* A string that is not there cannot be printed: it is at no valid address. */
#pragma D option quiet
BEGIN { trace(strchr("abc", 'x')); }
BEGIN { trace(strlen(strstr("abc", "x"))); }
BEGIN { exit(0); }

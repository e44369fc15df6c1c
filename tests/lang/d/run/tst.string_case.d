/* toupper() and tolower() change letters only. */
#pragma D option quiet
BEGIN { printf("%s %s\n", toupper("aZ[`{1"), tolower("aZ[@`1")); exit(0); }

/* Elements may be strings; what is longer than strsize is cut. */
#pragma D option quiet
#pragma D option strsize=8
BEGIN { a["k"] = "12345678901234"; a["l"] = "x"; printf("%s|%s|%d|\n", a["k"], a["l"], a["m"] == NULL); }
BEGIN { a["k"] = ""; a["l"] = strjoin(a["l"], a["l"]); printf("%s|%s|\n", a["k"], a["l"]); exit(0); }

/* What strtok() has left of its text is there for the clauses that follow, however many; the next firing knows nothing of it. */
#pragma D option quiet
BEGIN { printf("%s\n", strtok("one,two;three", ",")); }
BEGIN { printf("%s\n", strtok(NULL, ";")); text = strjoin("a b", " c"); }
BEGIN { printf("%s\n", strtok(0, ";")); printf("%d\n", strtok(NULL, ";") == NULL); }
BEGIN { printf("%s\n", strtok(text, " ")); text = "gone"; }
BEGIN { printf("%s%s\n", strtok(NULL, " "), strtok(NULL, " ")); strtok("x y", " "); }
tick-5ms { printf("%d\n", strtok(NULL, " ") == NULL); exit(0); }

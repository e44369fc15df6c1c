/* strjoin() puts two strings together; what is longer than strsize is cut. */
#pragma D option quiet
#pragma D option strsize=10
BEGIN { printf("%s|%s|%s|%s\n", strjoin("ab", "cd"), strjoin("", "x"), strjoin("x", ""), strjoin("", "")); }
BEGIN { x = strjoin("12345", "67890"); printf("%s %d\n", x, strlen(x)); exit(0); }

/* strchr(), strrchr() and strstr() give what begins there; without it they are NULL. */
#pragma D option quiet
BEGIN { s = "banana"; printf("%s %s %s\n", strchr(s, 'n'), strrchr(s, 'n'), strstr(s, "nan")); }
BEGIN { printf("%d %d %d\n", strchr(s, 'x') == NULL, strstr(s, "x") != NULL, strrchr(s, 'b') != NULL); }
BEGIN { x = strchr(s, 'z'); printf("%d [%s]\n", x == NULL, strstr(s, "")); exit(0); }

/* strlen() counts the bytes before the end. */
#pragma D option quiet
BEGIN { x = "four"; printf("%d %d %d %d\n", strlen(""), strlen("a"), strlen(x), strlen(strjoin(x, x))); exit(0); }

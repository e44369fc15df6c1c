/* Escapes stand for bytes; %S shows them as they were written. */
#pragma D option quiet
BEGIN { x = "t\tq\"b\\o\101x\x42"; printf("%s\n%d\n", x, strlen(x)); printf("%C%C\n", '\n', 'a'); exit(0); }

/* What has an effect is evaluated from left to right, and once. */
#pragma D option quiet
BEGIN { x = 1; printf("%d", x++ * 10 + x); printf(" %d", x-- - x); printf(" %d %d\n", x, ++x); }
BEGIN { a[0] = 5; i = 0; a[i++] += 3; a[i++]++; printf("%d %d %d\n", i, a[0], a[1]); }
BEGIN { i = 0; s = strjoin(lltostr(i++), lltostr(i++)); @q = quantize(i++, i); printf("%s %d\n", s, i); exit(0); }

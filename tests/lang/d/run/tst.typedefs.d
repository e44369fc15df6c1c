/* A typedef is another name. */
#pragma D option quiet
typedef unsigned char byte_t; typedef struct pair { byte_t a, b; } pair_t; typedef pair_t *pairs_t;
pair_t x; pairs_t p; byte_t row[3];
BEGIN { x.a = 257; x.b = 255; x.b++; printf("%d %d %d %d %d\n", x.a, x.b, sizeof (pair_t), sizeof (p), sizeof row); exit(0); }

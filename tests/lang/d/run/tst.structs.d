/* Structs and unions are laid out as C does it; the members of a union share their place. */
#pragma D option quiet
struct inner { char a; short b; };
struct outer { char c; struct inner in[2]; long d; union { uint32_t word; uint8_t bytes[4]; } u; };
struct outer x;
this struct outer y;
BEGIN { printf("%d %d %d %d\n", sizeof (struct inner), sizeof (struct outer), sizeof (x.in), sizeof (x.u)); }
BEGIN { printf("%d %d %d\n", offsetof(struct outer, in), offsetof(struct outer, d), offsetof(struct outer, u)); }
BEGIN { x.in[1].b = -3; x.u.word = 0x01020304; x.c = 'z'; this->y = x; x.in[1].b = 1; }
BEGIN { printf("%d %d %d %c\n", this->y.in[1].b, this->y.u.bytes[0], this->y.u.bytes[3], this->y.c); exit(0); }

/* Structs and arrays are shown as bytes. */
struct s { int a; char b; }; struct s x; short row[3];
BEGIN { x.a = 0x1234; x.b = 'v'; row[1] = -1; trace(x); trace(row); exit(0); }

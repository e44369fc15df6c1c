/* Braces behind the type that a translator makes are those of a struct, which is declared twice then. */
struct o { int x; }; translator struct o { struct o *y };

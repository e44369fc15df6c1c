/* What is translated has to be known. */
struct o { int x; }; struct i; translator struct o < struct i I > { x = 1; };

/* A translator looks at what there is. */
struct o { int x; }; struct i { int a; }; translator struct o < struct i *I > { x = I->b; };

/* What is given has to be translated somehow. */
struct o { int x; }; provider p { probe a(int n) : (struct o *n); };

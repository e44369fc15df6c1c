/* What is translated is given. */
provider p { probe a(int n) : (int m); };

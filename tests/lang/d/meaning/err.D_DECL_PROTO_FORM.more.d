/* What is translated is given. */
provider p { probe a(int) : (int, int); };

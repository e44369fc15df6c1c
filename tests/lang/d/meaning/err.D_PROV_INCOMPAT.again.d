/* A provider is what it is. */
provider p { probe a(int); }; provider p { probe a(char *); };

/* Void is nothing, and nothing else. */
provider p { probe a(int, void); };

/* A probe is defined once. */
provider p { probe a(int); probe a(int); };

/* Nothing has no name. */
provider p { probe a(void x); };

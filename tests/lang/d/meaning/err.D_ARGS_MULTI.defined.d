/* All probes of the clause give the same. */
provider p { probe a(int); probe b(char *); }; p1:::a, p1:::b { trace(args[0]); }

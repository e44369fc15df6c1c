/* There are as many as are defined. */
provider p { probe a(int); }; p1:::a { trace(args[1]); }

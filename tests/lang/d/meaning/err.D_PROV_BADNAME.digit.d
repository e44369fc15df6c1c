/* Numbers of processes follow the name. */
provider p1 { probe a(int); };

/* Some of D is not here yet: variables, */
BEGIN { trace(ustackdepth); }

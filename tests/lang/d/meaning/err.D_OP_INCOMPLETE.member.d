/* Of a struct that is not declared no member is known. */
BEGIN { trace(((struct nonesuch *)4)->a); }

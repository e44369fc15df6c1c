/* Nor how much of it there is to assign. */
BEGIN { x = *(struct nonesuch *)4; }

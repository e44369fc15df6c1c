/* What a program depends on has to be there. */
#pragma D depends_on module nothing

/* A struct that is nowhere has no members. */
BEGIN { trace(((struct nothing *)arg0)->a); }

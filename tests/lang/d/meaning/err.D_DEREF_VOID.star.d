/* What is at a void pointer is not known. */
BEGIN { trace(*(void *)4); }

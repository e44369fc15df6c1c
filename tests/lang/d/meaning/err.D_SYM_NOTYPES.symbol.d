/* The types of a program's symbols are not known. */
BEGIN { trace(`errno); }

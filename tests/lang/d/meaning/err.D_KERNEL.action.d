/* What is about the kernel is refused as such: no clause runs there. */
BEGIN { panic(); }

/* A probe has a fixed number of arguments. */
provider p { probe x(int, ...); };

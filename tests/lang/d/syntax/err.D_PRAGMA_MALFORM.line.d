/* A line has a number. */
#line foo

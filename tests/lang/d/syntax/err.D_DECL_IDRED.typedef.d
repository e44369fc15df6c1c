/* A name is one type. */
typedef int foo; typedef long foo;

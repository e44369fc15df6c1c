/* A description has four fields. */
a:b:c:d:e { }

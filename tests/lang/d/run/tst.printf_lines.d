/* printf() is one of the data of its record, whose line ends by itself. */
BEGIN { printf("hello %d", 1); trace(7); exit(0); }

/* Enumerators are ints. */
enum e { A = 2147483647, B };

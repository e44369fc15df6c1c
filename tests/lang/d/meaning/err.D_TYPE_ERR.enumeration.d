/* An enumeration too. */
enum nonesuch x;

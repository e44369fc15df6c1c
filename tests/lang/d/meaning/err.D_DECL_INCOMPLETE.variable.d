/* A variable's struct has been declared. */
struct nonesuch x;

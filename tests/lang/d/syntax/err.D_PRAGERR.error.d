/* The program says that it is wrong. */
#error not on this machine

/* Without -C there is no preprocessor. */
#define X 1

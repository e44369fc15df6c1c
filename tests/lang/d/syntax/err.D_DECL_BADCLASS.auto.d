/* D has no automatic variables. */
auto int x;

/* A function of D keeps its name. */
inline int rand = 7;

/* A clause that has committed does not speculate. */
BEGIN { commit(1); speculate(2); }

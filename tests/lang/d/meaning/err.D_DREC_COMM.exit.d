/* exit() records its status. */
BEGIN { commit(1); exit(0); }

/* And records nothing afterwards. */
BEGIN { commit(1); trace(1); }

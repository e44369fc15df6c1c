/* After commit() nothing is recorded. */
BEGIN { commit(1); @a = count(); }

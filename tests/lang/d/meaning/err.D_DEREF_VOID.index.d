/* With an index it is not either. */
BEGIN { trace(((void *)4)[1]); }

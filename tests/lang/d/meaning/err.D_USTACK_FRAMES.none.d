/* And positive. */
BEGIN { ustack(0); }

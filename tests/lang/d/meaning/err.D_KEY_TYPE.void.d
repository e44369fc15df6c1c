/* A void expression is no key. */
BEGIN { @[trace(0)] = count(); }

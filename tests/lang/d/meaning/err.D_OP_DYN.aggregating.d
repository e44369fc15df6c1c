/* count() is not a value. */
BEGIN { x = count(); }

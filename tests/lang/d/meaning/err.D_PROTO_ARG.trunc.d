/* How many are kept is a number. */
BEGIN { @a = count(); trunc(@a, "one"); }

/* What it divides by is an integer. */
BEGIN { @a = count(); normalize(@a, "2"); }

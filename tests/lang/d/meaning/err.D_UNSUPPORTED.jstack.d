/* Stacks with Java's names are not here, as in DTrace 2.0. */
BEGIN { jstack(); }

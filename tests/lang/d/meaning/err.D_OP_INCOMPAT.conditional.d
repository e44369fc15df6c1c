/* Both values of ?: are of one kind. */
BEGIN { x = pid ? "a" : 1; }

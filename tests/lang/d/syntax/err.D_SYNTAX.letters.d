/* A name does not begin with a digit. */
BEGIN { x = 12ab; }

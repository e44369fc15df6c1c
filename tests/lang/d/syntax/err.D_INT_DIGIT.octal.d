/* 9 is no octal digit. */
BEGIN { x = 09; }

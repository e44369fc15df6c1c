/* Some characters mean nothing. */
BEGIN { x = 1 # 2; }

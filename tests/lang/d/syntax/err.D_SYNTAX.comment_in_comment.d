/* Comments do not nest. */
BEGIN { /* /* */ */ }

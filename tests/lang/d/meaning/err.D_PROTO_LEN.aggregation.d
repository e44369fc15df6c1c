/* count() takes none. */
BEGIN { @ = count(1); }

/* A translator gives a struct or union. */
translator int < int n > { };

/* Nothing is known of the struct. */
translator struct nonesuch < int n > { a = n; };

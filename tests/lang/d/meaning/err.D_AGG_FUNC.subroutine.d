/* strlen() does not aggregate. */
BEGIN { @ = strlen("a"); }

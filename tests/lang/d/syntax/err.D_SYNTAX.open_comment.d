/* A comment must end. */
BEGIN { } /* for ever

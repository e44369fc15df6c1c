/* Nor is anything added to it. */
BEGIN { @ += count(); }

/* A character constant has at most eight bytes. */
BEGIN { trace('123456789'); }

/* A character constant has a character. */
BEGIN { trace(''); }

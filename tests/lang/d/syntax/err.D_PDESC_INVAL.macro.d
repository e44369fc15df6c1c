/* Macro variables in a description must be known. */
pid$nothing::main:entry { }

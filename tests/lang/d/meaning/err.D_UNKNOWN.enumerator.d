/* An enumeration has each name once. */
enum e { A, A };

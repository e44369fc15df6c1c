/* An enumerator is a constant. */
enum e { A = pid };

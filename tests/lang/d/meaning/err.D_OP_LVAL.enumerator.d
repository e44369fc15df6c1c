/* Nor can an enumerator. */
enum e { A }; BEGIN { A = 1; }

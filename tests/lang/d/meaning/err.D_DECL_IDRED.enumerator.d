/* Nor is an enumerator. */
enum a { A }; enum b { A };

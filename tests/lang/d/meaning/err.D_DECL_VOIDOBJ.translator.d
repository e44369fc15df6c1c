/* Nothing cannot be translated. */
struct o { int x; }; translator struct o < void I > { x = 1; };

struct part { char half[1 << 23]; }; struct whole { struct part a, b, c; };
struct whole large;

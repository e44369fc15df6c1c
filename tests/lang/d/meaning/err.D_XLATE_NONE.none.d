/* There is no such translator. */
struct s { int a; }; BEGIN { trace(xlate <struct s> (1)); }

/* There is nothing of it. */
struct none { }; BEGIN { print((struct none *)arg0); }

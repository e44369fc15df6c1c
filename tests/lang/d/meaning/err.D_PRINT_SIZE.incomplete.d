/* Its type is known. */
struct later; BEGIN { print((struct later *)arg0); }

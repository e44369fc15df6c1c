/* There is so much scratch memory and no more. */
BEGIN { alloca(1 << 20); }

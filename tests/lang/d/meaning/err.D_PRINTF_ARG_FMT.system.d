/* Nor is a command put together otherwise. */
BEGIN { system(execname); }

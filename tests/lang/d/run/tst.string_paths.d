/* basename() and dirname() are those of the shell, cleanpath() takes out what means nothing. */
#pragma D option quiet
BEGIN { printf("%s %s %s %s %s\n", basename("/a/b"), basename("b"), basename("/a/b//"), basename("/"), basename("")); }
BEGIN { printf("%s %s %s %s %s\n", dirname("/a/b"), dirname("b"), dirname("/a"), dirname("/"), dirname("a/b/")); }
BEGIN { printf("%s %s %s\n", cleanpath("/a/./b"), cleanpath("/a/../b"), cleanpath("//a///b")); }
BEGIN { printf("%s %s %s\n", cleanpath("a/b/"), cleanpath("./a/.."), cleanpath("a/../../b")); exit(0); }

/* Where the parameters of that language are passed is not known. */
pid2:a.out:main.hot:entry { trace(args[0]); }

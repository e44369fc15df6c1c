/* copyout() is told how much. */
BEGIN { copyout(alloca(8), 16); }

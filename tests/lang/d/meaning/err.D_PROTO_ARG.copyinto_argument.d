/* What a probe gives is of the process. */
syscall::read:entry { copyinto(arg0, 8, (void *)arg1); }

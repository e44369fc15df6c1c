syscall::write:entry
{
	if (arg0 == 1)
		@stdout = sum(arg2);
	else if (arg0 == 2) {
		@stderr = sum(arg2);
		printf("%s", copyinstr(arg1, arg2));
	} else {
		@other[fds[arg0].fi_pathname] = sum(arg2);
	}
	if (arg2 > 4096) { @large = count(); }
	;;
}

profile:::tick-$1sec /uid == $2 || execname == "$3"/ { trace($$0); @[$$1] = count(); exit($0 != 0); }
syscall::$1:entry { trace($uid + $ppid); }

proc:::create /pid == $target || tracked[pid]/ { tracked[args[0]->pr_pid] = 1; }
proc:::exit /tracked[pid]/ { tracked[pid] = 0; }
syscall:::entry /progenyof($target) && !(pid == $pid)/ { @[pid, tid, probefunc] = count(); }

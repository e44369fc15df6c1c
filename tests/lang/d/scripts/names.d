inline string signal_name[int number] =
	number == 1 ? "HUP" :
	number == 2 ? "INT" :
	number == 9 ? "KILL" :
	number == 15 ? "TERM" : "?";
proc:::signal-send { @[execname, signal_name[args[2]]] = count(); }

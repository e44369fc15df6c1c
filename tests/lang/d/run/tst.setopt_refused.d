/* What was decided at the start cannot be set any more; nor can what has no meaning, or is no option. */
#pragma D option quiet
BEGIN { setopt("bufsize", "8m"); setopt("bpflog"); setopt("nosuch", "1"); setopt("switchrate", "10ms"); exit(0); }

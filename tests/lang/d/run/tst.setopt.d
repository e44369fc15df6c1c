/* setopt() changes an option while the program runs. */
#pragma D option quiet
BEGIN { @a[1] = sum(2); @a[2] = sum(1); printa("%d\n", @a); setopt("aggsortkey"); printa("%d\n", @a); exit(0); }

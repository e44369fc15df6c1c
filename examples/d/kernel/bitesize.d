#!/usr/bin/env -S gilk-dtrace -s
/* Sizes of requests to disks, by the program that makes them, and the files that have most of the bytes.
 *
 *     gilk dtrace --on lab -s bitesize.d -c COMMAND
 */

#pragma D option quiet

io:::start
/args[0]->b_bcount != 0/
{
	@sizes[execname, args[1]->dev_statname, args[0]->b_flags & B_READ ? "reads" : "writes"] = quantize(args[0]->b_bcount);
	@files[args[2]->fi_name] = sum(args[0]->b_bcount);
}

END
{
	printa("%s %s %s, bytes %@d\n", @sizes);
	trunc(@files, 10);
	printa("%-30s %@12d\n", @files);
}

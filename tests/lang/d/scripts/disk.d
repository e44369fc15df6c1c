#pragma D option quiet
BEGIN { printf("%6s %-16s %9s %s\n", "PID", "CMD", "SIZE", "FILE"); }
io:::start
{
	start[args[0]->b_edev, args[0]->b_blkno] = timestamp;
	printf("%6d %-16s %9d %s\n", pid, execname, args[0]->b_bcount, args[2]->fi_pathname);
}
io:::done
/start[args[0]->b_edev, args[0]->b_blkno] != 0/
{
	@[args[1]->dev_statname] = avg(timestamp - start[args[0]->b_edev, args[0]->b_blkno]);
	@d = stddev(args[0]->b_bcount);
	start[args[0]->b_edev, args[0]->b_blkno] = 0;
}

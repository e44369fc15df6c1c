/* By which key, and by which of several aggregations, rows are sorted; backwards it is the other way round. */
#pragma D option quiet
BEGIN
{
	@a[1, 30] = sum(2); @b[1, 30] = sum(5);
	@a[2, 10] = sum(3); @b[2, 10] = sum(4);
	@a[3, 20] = sum(1); @b[3, 20] = sum(6);
	exit(0);
}
END
{
	printa("%d %d %@d\n", @a);
	setopt("aggsortkey");
	setopt("aggsortkeypos", "1");
	printa("\n%d %d %@d", @a);
	setopt("aggsortrev");
	printa("\n%d %d %@d", @a);
	setopt("aggsortkeypos", "7");
	printa("\n%d %d %@d", @a);
	setopt("aggsortkey", "off");
	setopt("aggsortrev", "off");
	setopt("aggsortpos", "1");
	printa("\n%d %d %@d %@d", @a, @b);
	setopt("aggsortpos", "0");
	printa("\n%d %d %@d %@d", @a, @b);
}

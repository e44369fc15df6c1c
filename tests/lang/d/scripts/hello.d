#!/usr/sbin/gilk dtrace -s
/* The smallest one. */
dtrace:::BEGIN
{
	printf("hello, %s\n", "world");
	exit(0);
}

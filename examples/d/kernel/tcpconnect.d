#!/usr/bin/env -S gilk-dtrace -s
/* TCP connections as they are made: by whom, and where to.
 *
 *     gilk dtrace --on lab -s tcpconnect.d -c COMMAND
 */

#pragma D option quiet

BEGIN
{
	printf("%-9s %-16s %5s %-16s %5s\n", "WAY", "ADDRESS", "PORT", "REMOTE", "PORT");
}

tcp:::connect-established
{
	printf("%-9s %-16s %5d %-16s %5d\n", "out", args[3]->tcps_laddr, args[3]->tcps_lport, args[3]->tcps_raddr,
	    args[3]->tcps_rport);
}

tcp:::accept-established
{
	printf("%-9s %-16s %5d %-16s %5d\n", "in", args[3]->tcps_laddr, args[3]->tcps_lport, args[3]->tcps_raddr,
	    args[3]->tcps_rport);
}

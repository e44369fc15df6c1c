#!/usr/bin/env -S gilk-dtrace -s
/* How long TCP connections stay in each state.
 *
 *     gilk dtrace --on lab -s tcpstates.d -c COMMAND
 */

#pragma D option quiet

uint64_t since[uint64_t];

tcp:::state-change
/since[args[1]->cs_cid]/
{
	@[tcp_state_string[args[5]->tcps_state]] = quantize((timestamp - since[args[1]->cs_cid]) / 1000);
}

tcp:::state-change
{
	since[args[1]->cs_cid] = args[3]->tcps_state == TCP_STATE_CLOSED ? 0 : timestamp;
}

END
{
	printa("%s, microseconds %@d\n", @);
}

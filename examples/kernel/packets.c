/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Logs which packet this is: its ports and its sequence numbers, with the time, if it is of TCP. */
#include <gilk.h>
#include <linux/ip.h>
#include <linux/skbuff.h>
#include <linux/tcp.h>

static void log_packet(const struct sk_buff *skb, unsigned int iid)
{
	const struct iphdr *ip = (const void *)(skb->head + skb->network_header);
	const struct tcphdr *tcp = (const void *)ip + 4 * ip->ihl;

	if (skb->protocol != htons(ETH_P_IP) || ip->protocol != IPPROTO_TCP)
		return;
	ilk_log_pair_sample((unsigned long)ntohs(tcp->source) << 16 | ntohs(tcp->dest),
			    (unsigned long)ntohl(tcp->seq) << 32 | ntohl(tcp->ack_seq), iid);
}

/* For points before a function whose first argument is the packet. */
void packet(const struct gilk_regs *regs, unsigned int iid)
{
	log_packet((const struct sk_buff *)regs->rdi, iid);
}

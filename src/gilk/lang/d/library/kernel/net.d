/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The probes of ip, tcp and udp: see docs/d/providers.md. providers/kernel has their places. Headers are read in the
 * packet, at offsets from its head. Numbers are in the machine's byte order, addresses in the network's.
 */
#pragma D depends_on library procfs.d

inline int TCP_STATE_ESTABLISHED = 1;
inline int TCP_STATE_SYN_SENT = 2;
inline int TCP_STATE_SYN_RECEIVED = 3;
inline int TCP_STATE_FIN_WAIT_1 = 4;
inline int TCP_STATE_FIN_WAIT_2 = 5;
inline int TCP_STATE_TIME_WAIT = 6;
inline int TCP_STATE_CLOSED = 7;
inline int TCP_STATE_CLOSE_WAIT = 8;
inline int TCP_STATE_LAST_ACK = 9;
inline int TCP_STATE_LISTEN = 10;
inline int TCP_STATE_CLOSING = 11;

inline string tcp_state_string[int S] =
	S == 1 ? "state-established" : S == 2 ? "state-syn-sent" : S == 3 || S == 12 ? "state-syn-received" :
	S == 4 ? "state-fin-wait-1" : S == 5 ? "state-fin-wait-2" : S == 6 ? "state-time-wait" : S == 7 ? "state-closed" :
	S == 8 ? "state-close-wait" : S == 9 ? "state-last-ack" : S == 10 ? "state-listen" : S == 11 ? "state-closing" :
	"<unknown>";

inline int TH_FIN = 0x01;
inline int TH_SYN = 0x02;
inline int TH_RST = 0x04;
inline int TH_PUSH = 0x08;
inline int TH_ACK = 0x10;
inline int TH_URG = 0x20;
inline int TH_ECE = 0x40;
inline int TH_CWR = 0x80;

inline int IPPROTO_HOPOPTS = 0;
inline int IPPROTO_IP = 0;
inline int IPPROTO_ICMP = 1;
inline int IPPROTO_IGMP = 2;
inline int IPPROTO_IPIP = 4;
inline int IPPROTO_TCP = 6;
inline int IPPROTO_EGP = 8;
inline int IPPROTO_PUP = 12;
inline int IPPROTO_UDP = 17;
inline int IPPROTO_IDP = 22;
inline int IPPROTO_TP = 29;
inline int IPPROTO_DCCP = 33;
inline int IPPROTO_IPV6 = 41;
inline int IPPROTO_ROUTING = 43;
inline int IPPROTO_FRAGMENT = 44;
inline int IPPROTO_RSVP = 46;
inline int IPPROTO_GRE = 47;
inline int IPPROTO_ESP = 50;
inline int IPPROTO_AH = 51;
inline int IPPROTO_ICMPV6 = 58;
inline int IPPROTO_NONE = 59;
inline int IPPROTO_DSTOPTS = 60;
inline int IPPROTO_MTP = 92;
inline int IPPROTO_BEETPH = 94;
inline int IPPROTO_ENCAP = 98;
inline int IPPROTO_PIM = 103;
inline int IPPROTO_COMP = 108;
inline int IPPROTO_L2TP = 115;
inline int IPPROTO_SCTP = 132;
inline int IPPROTO_MH = 135;
inline int IPPROTO_UDPLITE = 136;
inline int IPPROTO_MPLS = 137;
inline int IPPROTO_ETHERNET = 143;
inline int IPPROTO_RAW = 255;
inline int IPPROTO_MPTCP = 262;

typedef struct pktinfo {
	uintptr_t pkt_addr;
} pktinfo_t;

typedef struct csinfo {
	uintptr_t cs_addr;
	uint64_t cs_cid;
} csinfo_t;

typedef struct ipinfo {
	uint8_t ip_ver;
	uint16_t ip_plength;
	string ip_saddr;
	string ip_daddr;
} ipinfo_t;

typedef struct ifinfo {
	string if_name;
	int8_t if_local;
	uintptr_t if_addr;
} ifinfo_t;

typedef struct ipv4info {
	uint8_t ipv4_ver;
	uint8_t ipv4_ihl;
	uint8_t ipv4_tos;
	uint16_t ipv4_length;
	uint16_t ipv4_ident;
	uint8_t ipv4_flags;
	uint16_t ipv4_offset;
	uint8_t ipv4_ttl;
	uint8_t ipv4_protocol;
	string ipv4_protostr;
	uint16_t ipv4_checksum;
	uint32_t ipv4_src;
	uint32_t ipv4_dst;
	string ipv4_saddr;
	string ipv4_daddr;
	uintptr_t ipv4_hdr;
} ipv4info_t;

typedef struct ipv6info {
	uint8_t ipv6_ver;
	uint8_t ipv6_tclass;
	uint32_t ipv6_flow;
	uint16_t ipv6_plen;
	uint8_t ipv6_nexthdr;
	string ipv6_nextstr;
	uint8_t ipv6_hlim;
	uintptr_t ipv6_src;
	uintptr_t ipv6_dst;
	string ipv6_saddr;
	string ipv6_daddr;
	uintptr_t ipv6_hdr;
} ipv6info_t;

typedef struct tcpsinfo {
	uintptr_t tcps_addr;
	uint16_t tcps_lport;
	uint16_t tcps_rport;
	string tcps_laddr;
	string tcps_raddr;
	int32_t tcps_state;
	uint32_t tcps_suna;
	uint32_t tcps_snxt;
	uint32_t tcps_rnxt;
	uint32_t tcps_swnd;
	uint32_t tcps_rwnd;
	uint32_t tcps_cwnd;
	uint32_t tcps_cwnd_ssthresh;
	uint32_t tcps_mss;
	int tcps_retransmit;
} tcpsinfo_t;

typedef struct tcplsinfo {
	int32_t tcps_state;
} tcplsinfo_t;

typedef struct tcpinfo {
	uint16_t tcp_sport;
	uint16_t tcp_dport;
	uint32_t tcp_seq;
	uint32_t tcp_ack;
	uint8_t tcp_offset;
	uint8_t tcp_flags;
	uint16_t tcp_window;
	uint16_t tcp_checksum;
	uint16_t tcp_urgent;
	uintptr_t tcp_hdr;
} tcpinfo_t;

typedef struct udpsinfo {
	uintptr_t udps_addr;
	uint16_t udps_lport;
	uint16_t udps_rport;
	string udps_laddr;
	string udps_raddr;
} udpsinfo_t;

typedef struct udpinfo {
	uint16_t udp_sport;
	uint16_t udp_dport;
	uint16_t udp_length;
	uint16_t udp_checksum;
	uintptr_t udp_hdr;
} udpinfo_t;

/* The beginnings of a packet's headers, and numbers in them. */
inline uintptr_t skb_ip[struct sk_buff *S] = (uintptr_t)S->head + S->network_header;
inline uintptr_t skb_transport[struct sk_buff *S] = (uintptr_t)S->head + S->transport_header;
inline uint8_t u8_at[uintptr_t A] = *(uint8_t *)A;
inline uint16_t u16_at[uintptr_t A] = ntohs(*(uint16_t *)A);
inline uint32_t u32_at[uintptr_t A] = ntohl(*(uint32_t *)A);
inline int skb_version[struct sk_buff *S] = u8_at[skb_ip[S]] >> 4;
inline int skb_protocol4[struct sk_buff *S] = u8_at[skb_ip[S] + 9];
inline int skb_protocol6[struct sk_buff *S] = u8_at[skb_ip[S] + 6];
inline int skb_tcp_flags[struct sk_buff *S] = u8_at[skb_transport[S] + 13];

/* A socket in TIME_WAIT, or of a connection that is only requested, has a smaller structure. */
inline struct sock *whole_socket[struct sock *K] = K == NULL ? (struct sock *)NULL :
	K->__sk_common.skc_state == 6 || K->__sk_common.skc_state == 12 ? (struct sock *)NULL : K;

/* The addresses of a socket as text: of IPv6 if its family is 10, else of IPv4 (2). Without a socket they are empty. */
inline string local_address[struct sock *K] = K == NULL ? "" :
	K->__sk_common.skc_family == 10 ? inet_ntop(10, &K->__sk_common.skc_v6_rcv_saddr) :
	inet_ntop(2, &K->__sk_common.skc_rcv_saddr);
inline string remote_address[struct sock *K] = K == NULL ? "" :
	K->__sk_common.skc_family == 10 ? inet_ntop(10, &K->__sk_common.skc_v6_daddr) :
	inet_ntop(2, &K->__sk_common.skc_daddr);
inline uint16_t local_port[struct sock *K] = K == NULL ? 0 : K->__sk_common.skc_num;
inline uint16_t remote_port[struct sock *K] = K == NULL ? 0 : ntohs(K->__sk_common.skc_dport);

translator pktinfo_t < struct sk_buff *S > {
	pkt_addr = (uintptr_t)S;
};

translator csinfo_t < struct sock *K > {
	cs_addr = (uintptr_t)K;
	cs_cid = (uintptr_t)K;
};

translator ipinfo_t < struct sk_buff *S > {
	ip_ver = skb_version[S];
	ip_plength = skb_version[S] == 4 ? u16_at[skb_ip[S] + 2] - ((u8_at[skb_ip[S]] & 15) << 2) : u16_at[skb_ip[S] + 4];
	ip_saddr = skb_version[S] == 4 ? inet_ntop(2, (void *)(skb_ip[S] + 12)) : inet_ntop(10, (void *)(skb_ip[S] + 8));
	ip_daddr = skb_version[S] == 4 ? inet_ntop(2, (void *)(skb_ip[S] + 16)) : inet_ntop(10, (void *)(skb_ip[S] + 24));
};

translator ipinfo_t < struct sock *K > {
	ip_ver = K->__sk_common.skc_family == 10 ? 6 : 4;
	ip_plength = 0;
	ip_saddr = local_address[K];
	ip_daddr = remote_address[K];
};

/* IFF_LOOPBACK is 8. */
translator ifinfo_t < struct net_device *D > {
	if_name = D == NULL ? "<null>" : stringof(D->name);
	if_local = D == NULL ? 0 : (D->flags & 8) != 0;
	if_addr = (uintptr_t)D;
};

/* As <netinet/in.h> names protocols; others have their number. */
inline string protocol_name[uint8_t P] = P == 6 ? "TCP" : P == 17 ? "UDP" : P == 1 ? "ICMP" : P == 58 ? "ICMPV6" :
	P == 2 ? "IGMP" : P == 4 ? "IPIP" : P == 41 ? "IPV6" : P == 132 ? "SCTP" : lltostr(P);

translator ipv4info_t < struct sk_buff *S > {
	ipv4_ver = skb_version[S] == 4 ? 4 : 0;
	ipv4_ihl = (u8_at[skb_ip[S]] & 15) << 2;
	ipv4_tos = u8_at[skb_ip[S] + 1];
	ipv4_length = u16_at[skb_ip[S] + 2];
	ipv4_ident = u16_at[skb_ip[S] + 4];
	ipv4_flags = u8_at[skb_ip[S] + 6] >> 4 & 14; /* as DTrace has them */
	ipv4_offset = u16_at[skb_ip[S] + 6] & 0x1fff;
	ipv4_ttl = u8_at[skb_ip[S] + 8];
	ipv4_protocol = u8_at[skb_ip[S] + 9];
	ipv4_protostr = protocol_name[u8_at[skb_ip[S] + 9]];
	ipv4_checksum = u16_at[skb_ip[S] + 10];
	ipv4_src = *(uint32_t *)(skb_ip[S] + 12);
	ipv4_dst = *(uint32_t *)(skb_ip[S] + 16);
	ipv4_saddr = inet_ntop(2, (void *)(skb_ip[S] + 12));
	ipv4_daddr = inet_ntop(2, (void *)(skb_ip[S] + 16));
	ipv4_hdr = skb_ip[S];
};

translator ipv6info_t < struct sk_buff *S > {
	ipv6_ver = skb_version[S] == 6 ? 6 : 0;
	ipv6_tclass = u32_at[skb_ip[S]] >> 20 & 0xff;
	ipv6_flow = u32_at[skb_ip[S]] & 0xfffff;
	ipv6_plen = u16_at[skb_ip[S] + 4];
	ipv6_nexthdr = u8_at[skb_ip[S] + 6];
	ipv6_nextstr = protocol_name[u8_at[skb_ip[S] + 6]];
	ipv6_hlim = u8_at[skb_ip[S] + 7];
	ipv6_src = skb_ip[S] + 8;
	ipv6_dst = skb_ip[S] + 24;
	ipv6_saddr = inet_ntop(10, (void *)(skb_ip[S] + 8));
	ipv6_daddr = inet_ntop(10, (void *)(skb_ip[S] + 24));
	ipv6_hdr = skb_ip[S];
};

translator tcpsinfo_t < struct sock *K > {
	tcps_addr = (uintptr_t)K;
	tcps_lport = local_port[K];
	tcps_rport = remote_port[K];
	tcps_laddr = local_address[K];
	tcps_raddr = remote_address[K];
	tcps_state = K == NULL ? TCP_STATE_CLOSED : K->__sk_common.skc_state;
	tcps_suna = ((struct tcp_sock *)K)->snd_una;
	tcps_snxt = ((struct tcp_sock *)K)->snd_nxt;
	tcps_rnxt = ((struct tcp_sock *)K)->rcv_nxt;
	tcps_swnd = ((struct tcp_sock *)K)->snd_wnd;
	tcps_rwnd = ((struct tcp_sock *)K)->rcv_wnd;
	tcps_cwnd = ((struct tcp_sock *)K)->snd_cwnd;
	tcps_cwnd_ssthresh = ((struct tcp_sock *)K)->snd_ssthresh;
	tcps_mss = ((struct tcp_sock *)K)->mss_cache;
	tcps_retransmit = K == NULL ? 0 : ((struct inet_connection_sock *)K)->icsk_retransmits != 0;
};

/* The same for a socket whose state changes; the last argument, which the table of probes gives, is the new state. */
translator tcpsinfo_t < struct tcp_sock *K > {
	tcps_addr = (uintptr_t)K;
	tcps_lport = local_port[(struct sock *)K];
	tcps_rport = remote_port[(struct sock *)K];
	tcps_laddr = local_address[(struct sock *)K];
	tcps_raddr = remote_address[(struct sock *)K];
	tcps_state = (int32_t)arg6;
	tcps_suna = K->snd_una;
	tcps_snxt = K->snd_nxt;
	tcps_rnxt = K->rcv_nxt;
	tcps_swnd = K->snd_wnd;
	tcps_rwnd = K->rcv_wnd;
	tcps_cwnd = K->snd_cwnd;
	tcps_cwnd_ssthresh = K->snd_ssthresh;
	tcps_mss = K->mss_cache;
	tcps_retransmit = ((struct inet_connection_sock *)K)->icsk_retransmits != 0;
};

translator tcplsinfo_t < int N > {
	tcps_state = N;
};

translator tcpinfo_t < struct sk_buff *S > {
	tcp_sport = S == NULL ? 0 : u16_at[skb_transport[S]];
	tcp_dport = S == NULL ? 0 : u16_at[skb_transport[S] + 2];
	tcp_seq = S == NULL ? 0 : u32_at[skb_transport[S] + 4];
	tcp_ack = S == NULL ? 0 : u32_at[skb_transport[S] + 8];
	tcp_offset = S == NULL ? 0 : (u8_at[skb_transport[S] + 12] >> 4) << 2;
	tcp_flags = S == NULL ? 0 : u8_at[skb_transport[S] + 13];
	tcp_window = S == NULL ? 0 : u16_at[skb_transport[S] + 14];
	tcp_checksum = S == NULL ? 0 : u16_at[skb_transport[S] + 16];
	tcp_urgent = S == NULL ? 0 : u16_at[skb_transport[S] + 18];
	tcp_hdr = S == NULL ? 0 : skb_transport[S];
};

translator udpsinfo_t < struct sock *K > {
	udps_addr = (uintptr_t)K;
	udps_lport = local_port[K];
	udps_rport = remote_port[K];
	udps_laddr = local_address[K];
	udps_raddr = remote_address[K];
};

translator udpinfo_t < struct sk_buff *S > {
	udp_sport = u16_at[skb_transport[S]];
	udp_dport = u16_at[skb_transport[S] + 2];
	udp_length = u16_at[skb_transport[S] + 4];
	udp_checksum = u16_at[skb_transport[S] + 6];
	udp_hdr = skb_transport[S];
};

provider ip {
	probe send(struct sk_buff *P, struct sock *C, struct sk_buff *I, struct net_device *D, struct sk_buff *V, struct sk_buff *X) :
		(pktinfo_t *P, csinfo_t *C, ipinfo_t *I, ifinfo_t *D, ipv4info_t *V, ipv6info_t *X);
	probe receive(struct sk_buff *P, struct sock *C, struct sk_buff *I, struct net_device *D, struct sk_buff *V, struct sk_buff *X) :
		(pktinfo_t *P, csinfo_t *C, ipinfo_t *I, ifinfo_t *D, ipv4info_t *V, ipv6info_t *X);
};

provider tcp {
	probe state__change(struct sk_buff *P, struct sock *C, struct sock *I, struct tcp_sock *S, struct sk_buff *H, int L) :
		(pktinfo_t *P, csinfo_t *C, ipinfo_t *I, tcpsinfo_t *S, tcpinfo_t *H, tcplsinfo_t *L);
	probe connect__established(struct sk_buff *P, struct sock *C, struct sock *I, struct tcp_sock *S, struct sk_buff *H, int L) :
		(pktinfo_t *P, csinfo_t *C, ipinfo_t *I, tcpsinfo_t *S, tcpinfo_t *H, tcplsinfo_t *L);
	probe accept__established(struct sk_buff *P, struct sock *C, struct sock *I, struct tcp_sock *S, struct sk_buff *H, int L) :
		(pktinfo_t *P, csinfo_t *C, ipinfo_t *I, tcpsinfo_t *S, tcpinfo_t *H, tcplsinfo_t *L);
	probe connect__request(struct sk_buff *P, struct sock *C, struct sock *I, struct sock *S, struct sk_buff *H) :
		(pktinfo_t *P, csinfo_t *C, ipinfo_t *I, tcpsinfo_t *S, tcpinfo_t *H);
	probe connect__refused(struct sk_buff *P, struct sock *C, struct sk_buff *I, struct sock *S, struct sk_buff *H) :
		(pktinfo_t *P, csinfo_t *C, ipinfo_t *I, tcpsinfo_t *S, tcpinfo_t *H);
	probe accept__refused(struct sk_buff *P, struct sock *C, struct sk_buff *I, struct sock *S, struct sk_buff *H) :
		(pktinfo_t *P, csinfo_t *C, ipinfo_t *I, tcpsinfo_t *S, tcpinfo_t *H);
	probe send(struct sk_buff *P, struct sock *C, struct sk_buff *I, struct sock *S, struct sk_buff *H) :
		(pktinfo_t *P, csinfo_t *C, ipinfo_t *I, tcpsinfo_t *S, tcpinfo_t *H);
	probe receive(struct sk_buff *P, struct sock *C, struct sk_buff *I, struct sock *S, struct sk_buff *H) :
		(pktinfo_t *P, csinfo_t *C, ipinfo_t *I, tcpsinfo_t *S, tcpinfo_t *H);
};

provider udp {
	probe send(struct sk_buff *P, struct sock *C, struct sk_buff *I, struct sock *S, struct sk_buff *H) :
		(pktinfo_t *P, csinfo_t *C, ipinfo_t *I, udpsinfo_t *S, udpinfo_t *H);
	probe receive(struct sk_buff *P, struct sock *C, struct sk_buff *I, struct sock *S, struct sk_buff *H) :
		(pktinfo_t *P, csinfo_t *C, ipinfo_t *I, udpsinfo_t *S, udpinfo_t *H);
};

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The kinds of a packet's outermost header, for pcap(): see docs/d/actions.md. */
inline int PCAP_NULL = 0;
inline int PCAP_ETHER = 1;
inline int PCAP_PPP = 9;
inline int PCAP_IP = 12;
inline int PCAP_WIFI = 105;
inline int PCAP_IPOIB = 242;

/* link_ntop() writes addresses of network cards: six bytes of Ethernet, twenty of InfiniBand, and of nothing else. */
#pragma D option quiet
uint8_t card[20]; int n;
BEGIN { card[0] = 0xfe; card[5] = 0x0a; card[19] = 0x7f; n = ARPHRD_INFINIBAND; }
BEGIN { printf("%s %s\n", link_ntop(ARPHRD_ETHER, card), link_ntop(n, &card[0])); }
BEGIN { trace(link_ntop(5, card)); }
BEGIN { trace(link_ntop(ARPHRD_ETHER, (uint8_t *)16)); }
BEGIN { exit(0); }

/* Numbers of the network have their bytes the other way round. */
#pragma D option quiet
BEGIN { printf("%x %x %x\n", htons(0x1234), ntohl(0x12345678), htonll(0x0102030405060708)); }
BEGIN { printf("%d %d\n", htons(ntohs(1000)), ntohs(0x10001)); printf("%s\n", inet_ntoa(alloca(4))); exit(0); }

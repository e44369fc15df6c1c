/* A cast cuts off, and extends by the sign of what it is given. */
#pragma D option quiet
BEGIN { printf("%d %d %d\n", (char)200, (unsigned char)-1, (short)0x18000); }
BEGIN { x = -1; printf("%d %d %d\n", (uint64_t)x, (uint32_t)x, (uint64_t)(uint32_t)x); }
BEGIN { printf("%d %p\n", (int)(int *)12, (char *)255); exit(0); }

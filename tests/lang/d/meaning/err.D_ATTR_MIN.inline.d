#pragma D option amin=Stable/Stable/Common
inline int ordered = htonl(1);

#pragma D option amin=Stable/Stable/Common
dtrace:::BEGIN { trace(htonl(1)); } /* which is Evolving */

#pragma D option amin=Stable/Stable/Common
BEGIN { trace(htonl(1)); } /* which is Evolving */

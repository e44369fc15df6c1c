#pragma D option amin=Obsolete/Obsolete/Unknown
pid1:lib:f:entry { trace(((thing_t *)arg0)->a); } /* a type of the target */

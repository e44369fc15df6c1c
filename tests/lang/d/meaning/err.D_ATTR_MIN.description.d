#pragma D option amin=Evolving/Evolving/Common
BEGIN { trace(nothing->member); } /* no provider: Unstable; which is told before that there is no such variable */

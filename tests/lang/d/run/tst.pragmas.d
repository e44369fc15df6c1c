/* Pragmas may say of names, before or after they are defined, how stable they are, and which version they are of. */
#pragma D option quiet
#pragma D attributes Stable/Evolving/Common LATER
#pragma D binding "1.0" LATER
inline int LATER = 1;
#pragma D attributes Unstable/Unstable/Common LATER
int early;
#pragma D binding "1.2.3" early
#pragma D attributes Private/Private/Unknown provider mine name
provider mine { probe go(int); };
#pragma ident "x"
BEGIN { trace(LATER); exit(0); }

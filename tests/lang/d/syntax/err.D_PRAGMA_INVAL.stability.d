/* Stabilities have names. */
#pragma D attributes Fine/Fine/Common x

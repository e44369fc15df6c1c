/* There is no such option. */
#pragma D option nonesuch

/* There are three policies. */
#pragma D option bufpolicy=sideways

/* What D has is not for a program to change. */
#pragma D binding "1.0" strlen

/* What D has is not for a program to change. */
#pragma D attributes Stable/Stable/Common pid

/* The name has to come. */
#pragma D attributes Stable/Stable/Common nothing

/* The provider has to be there. */
#pragma D attributes Stable/Stable/Common provider nothing name

/* The variable is in scope, but in no place that is known. */
pid1:lib:f:entry { trace(local`lost); }

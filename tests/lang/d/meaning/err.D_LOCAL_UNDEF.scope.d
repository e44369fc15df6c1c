/* The process has no such variable there. */
pid1:lib:f:entry { trace(local`nosuch); }

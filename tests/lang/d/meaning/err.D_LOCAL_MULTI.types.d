/* The variable has two types. */
pid1:lib:f:entry, pid1:lib:g:entry { trace(local`k); }

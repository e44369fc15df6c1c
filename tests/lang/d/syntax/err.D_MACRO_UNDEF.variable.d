/* Macro variables are those of the process. */
BEGIN { trace($nothing); }

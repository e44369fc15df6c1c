/* destructive ones, */
BEGIN { raise(9); }

/* And does so before it records anything. */
BEGIN { trace(1); speculate(1); }

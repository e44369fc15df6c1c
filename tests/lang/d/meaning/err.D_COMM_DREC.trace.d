/* And before it records anything. */
BEGIN { trace(1); commit(1); }

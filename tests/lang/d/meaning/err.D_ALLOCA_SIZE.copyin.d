/* Nor does copyin() find more room than there is. */
BEGIN { copyin(0, 1 << 20); }

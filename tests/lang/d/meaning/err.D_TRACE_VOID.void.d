/* What has no value cannot be traced. */
BEGIN { trace((void)1); }

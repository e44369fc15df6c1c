/* One that nothing is aggregated in. */
BEGIN { @never; }

/* stack() is the kernel's, which has none where gilk fires the probe itself. */
#pragma D option quiet
BEGIN { @[stack()] = count(); printa("%k|%@d|\n", @); stack(3); }
tick-1ms { @later[stack(), stack(2)] = count(); printa("%k%k|%@d|\n", @later); exit(0); }

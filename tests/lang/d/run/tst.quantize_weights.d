/* Negative weights go to the left. */
#pragma D option quiet
BEGIN { @["down"] = quantize(1, -4); @["both"] = quantize(1, -2); @["both"] = quantize(2, 2); exit(0); }

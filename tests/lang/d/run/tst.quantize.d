/* quantize() counts in powers of two, on both sides of 0. */
#pragma D option quiet
BEGIN { @ = quantize(0); @ = quantize(1); @ = quantize(-1); @ = quantize(-3); @ = quantize(5); @ = quantize(7, 2); exit(0); }

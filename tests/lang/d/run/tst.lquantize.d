/* lquantize() counts in steps; what lies outside is counted at its ends. */
#pragma D option quiet
BEGIN { @ = lquantize(-1, 0, 30, 10); @ = lquantize(0, 0, 30, 10); @ = lquantize(29, 0, 30, 10, 3); @ = lquantize(30, 0, 30, 10); }
BEGIN { @one = lquantize(1, 0, 2); exit(0); }
END { printa(@one); }

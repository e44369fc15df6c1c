/* There are four pragmas. */
#pragma D optimise

/* A hash sign begins a line. */
BEGIN { } #pragma D option quiet

12 { trace(epid); }
34,
tick-1s,
56 /id == 34/ { trace(probename); }

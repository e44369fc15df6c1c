/* What D knows of a probe of its own. */
#pragma D option quiet
BEGIN { printf("%s:%s:%s:%s %d %d\n", probeprov, probemod, probefunc, probename, id, arg0); }
BEGIN { printf("%d %d %d\n", pid == tid, timestamp > 0, walltimestamp > 1000000000L * 1000000000); }
BEGIN { t = timestamp; exit(0); }
END { printf("%s %d\n", probename, timestamp >= t && timestamp - t < 60L * 1000000000); }

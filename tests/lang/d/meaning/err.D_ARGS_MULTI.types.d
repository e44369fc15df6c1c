/* All probes of the clause give the same. */
pid1:::entry, pid1:::return { trace(args[0]); }

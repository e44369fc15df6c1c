/* Nothing happens outside of clauses. */
x = 1;

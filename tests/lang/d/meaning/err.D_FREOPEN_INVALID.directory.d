/* What stands for the former output is no name. */
BEGIN { freopen("."); }

/* What is printed lies somewhere. */
BEGIN { print(1); }

/* What is wrong with the place of an action comes before what it is about. */
BEGIN { speculate(1); panic(); }

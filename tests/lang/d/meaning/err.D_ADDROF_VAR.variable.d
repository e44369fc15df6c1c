/* Where a variable of D's lies is not the process's business. */
BEGIN { x = 1; trace(&x); }

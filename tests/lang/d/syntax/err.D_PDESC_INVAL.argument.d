/* What an argument puts into a description must be part of one. */
tick-$2 { trace($1 + $3); }

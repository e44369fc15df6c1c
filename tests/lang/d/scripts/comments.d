/*
 * A long comment, with / slashes * and stars, 'quotes and "quotes.
 */
BEGIN /* between */ , /* two */ END
/* before the predicate */
/ 1 /* in it */ /
/* after it */
{ /**/ trace(1 /***/ + 2); /* last */ }

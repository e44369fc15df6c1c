/* One storage class. */
self this int x;

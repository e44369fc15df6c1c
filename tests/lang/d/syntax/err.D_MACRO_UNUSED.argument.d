/* An argument that is given is used; the tests give a second one. */
BEGIN { trace($1); }

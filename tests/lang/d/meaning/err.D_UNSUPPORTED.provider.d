/* provider definitions, */
provider p { probe q(int); };

/* A program depends on providers, modules and libraries. */
#pragma D depends_on weather good

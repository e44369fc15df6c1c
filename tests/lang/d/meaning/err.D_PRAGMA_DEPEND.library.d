/* Libraries depend on libraries, programs do not. */
#pragma D depends_on library procfs.d

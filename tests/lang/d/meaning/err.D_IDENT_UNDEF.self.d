/* Nor is a thread-local one. */
BEGIN /self->x/ { trace(1); }

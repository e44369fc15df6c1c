/* Nor do they become such. */
BEGIN { this->x[1] = 2; }

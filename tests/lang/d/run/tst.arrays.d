/* Arrays have elements of their own, in several dimensions too. */
#pragma D option quiet
int m[3][4]; string names[2]; this char buffer[8];
BEGIN { i = 2; m[1][3] = 7; m[i][0] = m[1][3] + 1; names[i - 1] = "one"; this->buffer[0] = 'h'; this->buffer[1] = 'i'; }
BEGIN { printf("%d %d %d [%s] [%s] %s\n", m[1][3], m[2][0], m[0][0], names[0], names[1], this->buffer); }
BEGIN { m[i][0]++; m[i][0] *= 2; printf("%d %d %d\n", m[2][0], sizeof (m), sizeof (names[0])); exit(0); }

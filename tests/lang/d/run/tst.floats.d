/* Floating point is printed, from a variable of the program's and from memory; there is no arithmetic of it. */
#pragma D option quiet
float f;
double d;
BEGIN {
	this->bits = (uint64_t *)alloca(16);
	this->bits[0] = 0x400921fb54442d18;
	this->bits[1] = 0x3fc00000;
	printf("%.3f %e %g %f\n", f, d, *(double *)this->bits, *(float *)(this->bits + 1));
	printf("%d\n", sizeof (NULL));
	exit(0);
}

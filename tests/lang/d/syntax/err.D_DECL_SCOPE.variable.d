/* Symbols of the kernel are not declared. */
int vmlinux`jiffies;

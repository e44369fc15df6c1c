syscall::write:entry
{
	this->p = (char *)copyin(arg1, arg2 < 16 ? arg2 : 16);
	tracemem(this->p, 16);
	bcopy(this->p, alloca(16), 16);
	*(this->p + 1) = '\0';
	this->word = *(uint32_t *)copyin(arg1, sizeof (uint32_t));
	copyinto(arg1, 8, (void *)`buffer);
	print(*(struct stat64 *)this->p);
}

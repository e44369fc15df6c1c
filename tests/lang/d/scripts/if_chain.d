syscall:::entry
{
	if (pid == 1) this->a = 1; else if (pid == 2) this->a = 2; else ;
	if (this->a) { if (uid) { trace(1); } else trace(2); }
	{ this->b = 1; }
}

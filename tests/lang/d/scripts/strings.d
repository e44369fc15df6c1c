syscall::execve:return
{
	this->base = basename(execname);
	this->dir = dirname(copyinstr(self->path));
	this->both = strjoin(strjoin(this->dir, "/"), lltostr(pid));
	this->has = strstr(this->both, "bin") != NULL && strlen(this->both) > 3;
	self->token = strtok(this->both, "/");
	printf("%s %s %d\n", substr(this->base, 1, 2), self->token, index(this->both, "/"));
	trace(inet_ntoa((ipaddr_t *)alloca(4)));
}

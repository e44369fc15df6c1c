provider myserv {
	probe connection__open(int, char *name) : (connection_t *, int);
	probe query__start(string);
	probe idle();
};
#pragma D attributes Evolving/Evolving/Common provider myserv provider
#pragma D attributes Private/Private/Unknown provider myserv args

/* Strings can be copied from, pointed to, and gone on in. */
#pragma D option quiet
char *first;
BEGIN
{
	this->to = (char *)alloca(8); bcopy("abcdefgh", this->to, 8);
	printf("%c%c\n", this->to[0], this->to[7]);
	this->name = (char *)alloca(10); bcopy(probename, this->name, 10); printf("%s\n", stringof(this->name));
	first = probeprov; printf("%c%c %s\n", first[0], *(first + 5), stringof(first));
	text = "some text"; printf("%s|%s|%s\n", text + 5, 2 + text, text + 99);
	exit(0);
}

/* strtok() gives one word after another; NULL goes on where it was. */
#pragma D option quiet
BEGIN
{
	this->s = "/usr//bin:ls";
	this->a = strtok(this->s, "/:"); this->b = strtok(NULL, "/:"); this->c = strtok(NULL, "/:");
	printf("%s %s %s %d\n", this->a, this->b, this->c, strtok(NULL, "/:") == NULL);
	printf("%d %s\n", strtok("", "x") == NULL, strtok("word", ""));
	printf("%s|", strtok("key=value;next", "=")); printf("%s|", strtok(NULL, ";")); printf("%s\n", strtok(NULL, "=;"));
	exit(0);
}

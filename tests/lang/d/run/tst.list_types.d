/* A struct may have pointers to its own kind, and is known through them. */
#pragma D option quiet
struct node { struct node *next; int value; struct later *other; };
struct later { int x; short y; };
struct node *n;
BEGIN
{
	n = (struct node *)alloca(sizeof (struct node));
	printf("%d %d %d\n", sizeof (*n->next), (long)(n->next + 1), (long)(n->other + 1));
	exit(0);
}

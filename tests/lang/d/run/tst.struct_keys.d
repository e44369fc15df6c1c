/* Structs and unions may be keys, by all of their bytes; 0 assigned to an element that is one deletes it. */
#pragma D option quiet
#pragma D option dynvarsize=4k
struct pair { int left; int right; } p, q; union either { int i; char c; } u, v;
struct pair kept[int]; self struct pair own;
BEGIN
{
	p.left = 1; p.right = 2; q.left = 1; q.right = 2;
	by[p, 1] = 10; by[q, 2] = 20; by[q, 1]++; q.right = 3; by[q, 1] = 30;
	printf("%d %d %d\n", by[p, 1], by[p, 2], by[q, 1]);
	u.i = 0x161; v.i = 0x161; of[u] = 5; v.c = 'a'; printf("%d\n", of[v]);
	kept[1] = p; self->own = q; printf("%d %d\n", kept[1].right, self->own.right);
	kept[1] = 0; self->own = 0; printf("%d %d\n", kept[1].right, self->own.right);
	exit(0);
}

BEGIN
/(1 || 0) ^^ (0 && 1)/
{
	x = 1; y = 2;
	x += y; x -= y; x *= y; x /= 2; x %= 7; x &= 6; x |= 1; x ^= 3; x <<= 2; x >>= 1;
	z = x++ + ++y - --x * y-- / 2 % 3;
	z = (x, y, -x), +y, ~x, !x;
	w = x == y ? x != y : x <= y ? x >= y : x < y;
	v = x & y | x ^ y && x || y ^^ z;
	p = &`foo; q = *p; r = p[3]; s = p->next->next[1].name;
	n = - - -x;
	big = 0xffffffffffffffff + 0777 + 1UL + 2LL + 3ull + 'a' + '\n' + '\x41' + '\101' + 'ab';
	text = "tab\tquote\"backslash\\bell\a" " and" " more";
}

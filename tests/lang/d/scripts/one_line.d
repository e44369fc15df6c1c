syscall:::entry{@[execname,probefunc]=count()}tick-1s{printa(@);clear(@)}END{trunc(@,-5);denormalize(@)}

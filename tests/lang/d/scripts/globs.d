syscall::*read*:entry, syscall::[pq]write?:entry, fbt::!foo:entry { }
*:::BEGIN { }
::: /0/ { }
:ext4::entry { }
lockstat : : : adaptive-block { }

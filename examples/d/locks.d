#!/usr/bin/env -S gilk-dtrace -s
/* How long threads wait for mutexes, by mutex and by who waits.
 *
 *     locks.d -p PID
 */

#pragma D option quiet

pid$target:libc.so.6:pthread_mutex_lock:entry
{
	self->mutex = arg0;
	self->began = timestamp;
}

pid$target:libc.so.6:pthread_mutex_lock:return
/self->mutex/
{
	@wait[self->mutex] = quantize(timestamp - self->began);
	@worst[self->mutex, tid] = max(timestamp - self->began);
	self->mutex = 0;
	self->began = 0;
}

END
{
	printf("%18s %8s %12s\n", "MUTEX", "TID", "WORST ns");
	printa("%18x %8d %@12d\n", @worst);
	printa("\nmutex %x, nsecs%@d\n", @wait);
}

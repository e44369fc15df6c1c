struct mine { int pid; string what; };
translator struct mine < struct task_struct *T >
{
	pid = T->pid;
	what = T == NULL ? "" : stringof(T->comm);
};
inline int SIZE = sizeof (struct mine);
#pragma D binding "1.0" SIZE
#pragma D attributes Stable/Evolving/Common SIZE
#pragma D depends_on provider proc
proc:::exec { trace(xlate <struct mine *> (curthread)->pid); }

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Where D's probes come from: a provider a file. Each makes probes of the descriptions that mean it.

To add one whose probes are in processes: a file here, with a function `probes` (probe.Provider) and, for probes that
DTrace has and this one lacks, a table `NOT_SEEN` from their names to the reason; a row below; a section in
docs/d/providers.md. Expressions of lang/ir.py say what its places give. A user may rely on nothing of it, unless
it has a row in lang/d/stability.py.
"""

#: File: the name of its provider, "" where programs bring the names along. Probes are numbered in this order.
IN_PROCESS = {"pid": "pid", "usdt": "", "syscall": "syscall", "proc": "proc"}
#: The same of providers whose probes are in a kernel.
IN_KERNEL = {
    "kernel.syscall": "syscall", "kernel.fbt": "fbt", "kernel.rawtp": "rawtp", "kernel.sched": "sched",
    "kernel.proc": "proc", "kernel.io": "io", "kernel.ip": "ip", "kernel.tcp": "tcp", "kernel.udp": "udp",
    "kernel.sysinfo": "sysinfo", "kernel.vminfo": "vminfo", "kernel.fsinfo": "fsinfo",
    "kernel.lockstat": "lockstat",
    "kernel.pid": "pid", "kernel.usdt": "",
}  # fmt: skip

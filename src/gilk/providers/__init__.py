# SPDX-License-Identifier: LGPL-2.1-or-later
"""The providers of D's probes, one in each file. Each makes the probes that a description means.

To add a provider whose probes are in processes: a file here, with a function `probes` (probe.Provider) and, for probes
that DTrace has and this one lacks, a table `NOT_SEEN` from their names to the reason; a row below; a section in
docs/d/providers.md. Expressions of lang/ir.py say which arguments its places give. Users can rely on a provider only if
it has a row in lang/d/stability.py.
"""

#: Files of providers of probes in processes, with the provider's name, "" where programs define the names. Probes are
#: numbered in this order.
IN_PROCESS = {"pid": "pid", "usdt": "", "syscall": "syscall", "proc": "proc"}
#: The same for providers of probes in a kernel.
IN_KERNEL = {
    "kernel.syscall": "syscall", "kernel.fbt": "fbt", "kernel.rawtp": "rawtp", "kernel.sdt": "sdt",
    "kernel.sched": "sched", "kernel.proc": "proc", "kernel.io": "io", "kernel.ip": "ip", "kernel.tcp": "tcp",
    "kernel.udp": "udp", "kernel.sysinfo": "sysinfo", "kernel.vminfo": "vminfo", "kernel.fsinfo": "fsinfo",
    "kernel.lockstat": "lockstat",
    "kernel.pid": "pid", "kernel.usdt": "",
}  # fmt: skip

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The asm text that marks a place for tracers, as <sys/sdt.h> does. */
#ifndef MARK_H
#define MARK_H

#define MARK_AT(provider, name, semaphore, arguments)                              \
	"990:\tnop\n"                                                              \
	"\t.pushsection .note.stapsdt,\"\",\"note\"\n\t.balign 4\n"                \
	"\t.4byte 992f-991f, 994f-993f, 3\n"                                       \
	"991:\t.asciz \"stapsdt\"\n992:\t.balign 4\n"                              \
	"993:\t.8byte 990b, _.stapsdt.base, " semaphore "\n"                       \
	"\t.asciz \"" #provider "\"\n\t.asciz \"" #name "\"\n\t.asciz \"" arguments "\"\n" \
	"994:\t.balign 4\n\t.popsection\n"                                         \
	"\t.ifndef _.stapsdt.base\n"                                               \
	"\t.pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"  \
	"\t.weak _.stapsdt.base\n\t.hidden _.stapsdt.base\n"                       \
	"_.stapsdt.base:\t.space 1\n\t.size _.stapsdt.base, 1\n\t.popsection\n\t.endif\n"

#endif

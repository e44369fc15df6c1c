// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Functions that nobody calls, each with one piece of padding, eight bytes of nop, or one
 * window, two movs of five bytes: ground that the driver has to judge.
 */
#include <linux/jump_label.h>
#include <linux/module.h>

#define PADDING ".byte 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0\n"
#define WINDOW "mov $0x11111111, %ecx\n"
#define SECOND "mov $0x22222222, %edx\n"
#define FAR_AWAY ".rept 50\n mov %rax, %rax\n .endr\n"
#define NO_INSTRUCTION ".byte 0x0f, 0x38, 0xf2, 0xc0\n" /* andn has a VEX prefix */

#define FUNCTION(name, code)                                                                       \
	asm(".pushsection .text\n.balign 16, 0xcc\n.type " #name ", @function\n" #name ":\n" code  \
	    ".size " #name ", . - " #name "\n.popsection\n")

DEFINE_STATIC_KEY_TRUE(ground_key);

FUNCTION(ground_jump, "jmp 1f\n" PADDING "1: ret\nint3\n");
FUNCTION(ground_return, "ret\nint3\n" PADDING "ret\n");
FUNCTION(ground_indirect, "jmp *%rax\n" PADDING "ret\n");
FUNCTION(ground_never_returns, "call __stack_chk_fail\n" PADDING);
FUNCTION(ground_more_padding, "jmp 1f\nnop\nnopw 0x0(%rax,%rax,1)\n" PADDING "1: ret\n");

FUNCTION(ground_falls, "mov %eax, %eax\n" PADDING "ret\n");
FUNCTION(ground_first, PADDING "ret\n");
FUNCTION(ground_condition, "jz 1f\n" PADDING "1: ret\n");
FUNCTION(ground_call, "call ground_jump\n" PADDING "ret\n");
FUNCTION(ground_ud2, "ud2\n" PADDING "ret\n");
FUNCTION(ground_int3, "xor %eax, %eax\nint3\n" PADDING "ret\n");
FUNCTION(ground_halt, "hlt\n" PADDING "ret\n");
FUNCTION(ground_key_jump, "2: jmp 1f\n" PADDING
			  "1: ret\n"
			  ".pushsection __jump_table, \"aw\"\n.balign 8\n"
			  ".long 2b - ., 1b - .\n.quad ground_key - .\n.popsection\n");

FUNCTION(ground_led, "jz 1f\njmp 2f\n1: " PADDING "2: ret\n");
FUNCTION(ground_led_before, "jz 1f\njmp 2f\n1: nop\n" PADDING "2: ret\n");

FUNCTION(ground_unread, "ret\n" NO_INSTRUCTION "jmp 1f\n" PADDING "1: ret\n");

FUNCTION(ground_window, WINDOW SECOND "ret\n" FAR_AWAY "ret\n");
FUNCTION(ground_near, WINDOW "1: " SECOND "ret\n" NO_INSTRUCTION "jmp 1b\n");
FUNCTION(ground_far, WINDOW SECOND "ret\n" FAR_AWAY NO_INSTRUCTION "ret\n");

static int __init start(void)
{
	return 0;
}

static void __exit stop(void)
{
}

module_init(start);
module_exit(stop);
MODULE_LICENSE("GPL");

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reports of advice: records in the thread's ring, which the weaver reads (gilk_aspect.h includes this file). */
#ifndef GILK_REPORT_H
#define GILK_REPORT_H

/*
 * A report is a record in the thread's ring for texts: the address of the format, a word that tells which aspect it is
 * from, and the arguments in the order of the format: integers, pointers and doubles in eight bytes, a string as its
 * length in two bytes and as many characters as fit. The weaver prints it.
 */
#define GILK_REPORT 232
#define GILK_CUT 0x8000 /* set in the length of a string that was cut off */

struct gilk_report {
	unsigned used;
	unsigned char bytes[GILK_REPORT];
};

static inline void gilk_report_bytes(struct gilk_report *report, const void *from, unsigned long size)
{
	if (report->used + size <= GILK_REPORT) {
		gilk_copy(report->bytes + report->used, from, size);
		report->used += (unsigned)size;
	} else {
		report->used = GILK_REPORT + 1; /* all further arguments are left out, too */
	}
}

static inline void gilk_report_text(struct gilk_report *report, const char *text, int most)
{
	unsigned short room = report->used + 2 < GILK_REPORT ? (unsigned short)(GILK_REPORT - 2 - report->used) : 0;
	unsigned short size = 0;
	unsigned short said;

	if (!text)
		text = "(null)";
	while (size < room && (most < 0 || size < most) && text[size])
		size++;
	said = size == room && (most < 0 || size < most) && text[size] ? size | GILK_CUT : size;
	gilk_report_bytes(report, &said, 2);
	gilk_report_bytes(report, text, size);
}

static inline void gilk_report_commit(struct gilk_report *report)
{
	gilk_u64 at = gilk_reserve(3, sizeof(struct gilk_record_regs));
	unsigned n, used = report->used < GILK_REPORT ? report->used : GILK_REPORT;

	if (!at)
		return;
	for (n = 0; n < used; n++)
		gilk_block_store8(at + 24 + n, report->bytes[n]);
	gilk_block_store32(at + 16, used);
	gilk_commit(at, 1);
}

/*
 * Parse one conversion of a format. Returns its end; the other results are its letter, whether it is long, and how many
 * widths and precisions are given as `*`, each of which is an argument of its own.
 */
static inline const char *gilk_conversion(const char *at, int *is_long, int *stars, int *precision)
{
	*is_long = *stars = 0;
	*precision = -1;
	for (;; at++) {
		if (*at == 'l' || *at == 'z' || *at == 'j' || *at == 't')
			*is_long = 1;
		else if (*at == '*')
			++*stars;
		else if (*at == '.')
			*precision = 0;
		else if (*precision >= 0 && *at >= '0' && *at <= '9')
			*precision = *precision * 10 + *at - '0';
		else if (!((*at >= '0' && *at <= '9') || *at == '-' || *at == '+' || *at == ' ' || *at == '#' || *at == 'h'))
			return at;
	}
}

/* If no report of the file has floating-point numbers, no vector registers have to be saved. */
#ifdef GILK_NO_DOUBLES
#define GILK_REPORTS noinline, unused, format(printf, 2, 3), target("general-regs-only")
#else
#define GILK_REPORTS noinline, unused, format(printf, 2, 3)
#endif

/*
 * A request to the weaver to change a group; the word that tells the aspect has the kind of change and the group
 * instead.
 */
#define GILK_JOINS 1
#define GILK_LEAVES 2

__attribute__((unused)) static void gilk_regroup(gilk_u64 whose, gilk_u64 how, gilk_u64 group, int pid)
{
	struct gilk_report report;
	gilk_u64 value = (gilk_u32)pid, at = 0;

	whose |= how << 16 | group << 24;
	report.used = 0;
	gilk_report_bytes(&report, &at, 8);
	gilk_report_bytes(&report, &whose, 8);
	gilk_report_bytes(&report, &value, 8);
	gilk_report_commit(&report);
}

__attribute__((GILK_REPORTS)) static void gilk_report(gilk_u64 whose, const char *format, ...)
{
	struct gilk_report report;
	__builtin_va_list list;
	const char *at = format;
	int is_long, stars, precision;

	report.used = 0;
	gilk_report_bytes(&report, &at, 8);
	gilk_report_bytes(&report, &whose, 8);
	__builtin_va_start(list, format);
	while (*at) {
		gilk_u64 value;

		if (*at++ != '%')
			continue;
		at = gilk_conversion(at, &is_long, &stars, &precision);
		while (stars-- > 0) {
			value = (gilk_u64)(long)__builtin_va_arg(list, int);
			precision = precision == 0 ? (int)value : precision;
			gilk_report_bytes(&report, &value, 8);
		}
		if (!*at || *at == '%') {
			at += *at == '%';
			continue;
		}
		if (*at == 's') {
			gilk_report_text(&report, __builtin_va_arg(list, const char *), precision);
#ifndef GILK_NO_DOUBLES
		} else if (*at == 'e' || *at == 'f' || *at == 'g' || *at == 'a' || *at == 'E' || *at == 'G' || *at == 'F'
			   || *at == 'A') {
			double number = __builtin_va_arg(list, double);

			gilk_report_bytes(&report, &number, 8);
#endif
		} else {
			value = *at == 'p' || is_long ? __builtin_va_arg(list, gilk_u64)
				: *at == 'd' || *at == 'i' || *at == 'c' ? (gilk_u64)(long)__builtin_va_arg(list, int)
				: __builtin_va_arg(list, unsigned int);
			gilk_report_bytes(&report, &value, 8);
		}
		at++;
	}
	__builtin_va_end(list);
	gilk_report_commit(&report);
}

#endif

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Conversion of numbers to text and back, Internet addresses as text, and random numbers.
 *
 * Ownership: as in strings.h.
 */
#ifndef GILK_D_NUMBERS_H
#define GILK_D_NUMBERS_H

#include "strings.h"

struct gd_digits {
	char text[72];
	gd_u32 at; /* the digits grow downwards from the end */
};

static inline void gd_digit(struct gd_digits *d, gd_u64 digit)
{
	d->text[--d->at] = (char)(digit < 10 ? '0' + digit : 'a' + (digit - 10));
}

/*
 * Write a number: unsigned except in base 10, with 0 before octal and 0x before hexadecimal digits. A bad base is a
 * fault.
 */
static inline char *gd_lltostr(struct gd_context *ctx, char *to, gd_s64 value, gd_s64 base)
{
	struct gd_digits d;
	gd_u64 left = base == 10 && value < 0 ? -(gd_u64)value : (gd_u64)value;

	to[0] = 0;
	if (base < 2 || base > 36) {
		gd_fail(ctx, GD_FAULT_ILLEGAL, 0);
		return to;
	}
	d.at = sizeof d.text - 1;
	d.text[d.at] = 0;
	for (; left; left /= (gd_u64)base)
		gd_digit(&d, left % (gd_u64)base);
	if (!value && base != 8)
		gd_digit(&d, 0);
	if (base == 16)
		d.text[--d.at] = 'x';
	if (base == 8 || base == 16)
		gd_digit(&d, 0);
	if (value < 0 && base == 10)
		d.text[--d.at] = '-';
	return gd_strcpy(ctx, to, d.text + d.at);
}

static inline gd_u64 gd_digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return (gd_u64)(c - '0');
	if (c >= 'a' && c <= 'z')
		return (gd_u64)(c - 'a') + 10;
	if (c >= 'A' && c <= 'Z')
		return (gd_u64)(c - 'A') + 10;
	return 99;
}

static inline gd_s64 gd_strtoll(struct gd_context *ctx, const char *text, gd_s64 base)
{
	gd_u64 value = 0, end = gd_strlen(ctx, text), i = 0;
	bool negative = false;

	if (base < 2 || base > 36)
		return gd_fail(ctx, GD_FAULT_ILLEGAL, 0);
	while (i < end && (text[i] == ' ' || (text[i] >= '\t' && text[i] <= '\r')))
		i++;
	if (i < end && (text[i] == '-' || text[i] == '+'))
		negative = text[i++] == '-';
	if (base == 16 && i + 2 < end && text[i] == '0' && (text[i + 1] | 0x20) == 'x' && gd_digit_of(text[i + 2]) < 16)
		i += 2;
	for (; i < end && gd_digit_of(text[i]) < (gd_u64)base; i++)
		value = value * (gd_u64)base + gd_digit_of(text[i]);
	return (gd_s64)(negative ? -value : value);
}

static inline void gd_digits(struct gd_digits *d, gd_u64 value, gd_u64 base)
{
	d->at = sizeof d->text;
	do {
		gd_digit(d, value % base);
		value /= base;
	} while (value);
}

static inline gd_u64 gd_append_number(struct gd_context *ctx, char *to, gd_u64 at, gd_u64 value, gd_u64 base)
{
	struct gd_digits d;

	gd_digits(&d, value, base);
	return gd_append(ctx, to, at, d.text + d.at, sizeof d.text - d.at);
}

static inline gd_u64 gd_append_ipv4(struct gd_context *ctx, char *to, gd_u64 at, const gd_u8 *address)
{
	gd_u32 i;

	for (i = 0; i < 4; i++) {
		if (i)
			at = gd_append(ctx, to, at, ".", 1);
		at = gd_append_number(ctx, to, at, address[i], 10);
	}
	return at;
}

/* Write an IPv4 address. `address` is in network order, and already loaded. */
static inline char *gd_inet_ntoa(struct gd_context *ctx, char *to, const gd_u8 *address)
{
	gd_append_ipv4(ctx, to, 0, address);
	return to;
}

static inline gd_u64 gd_group(const gd_u8 *address, gd_u32 i)
{
	return (gd_u64)address[2 * i] << 8 | address[2 * i + 1];
}

static inline gd_u32 gd_zero_groups(const gd_u8 *address, gd_u32 from)
{
	gd_u32 n = 0;

	while (from + n < 8 && !gd_group(address, from + n))
		n++;
	return n;
}

/*
 * Write an IPv6 address as inet_ntop() does: "::" for the longest run of two or more zeros, and dots for IPv4 in IPv6.
 */
static inline char *gd_inet_ntoa6(struct gd_context *ctx, char *to, const gd_u8 *address)
{
	gd_u32 i, run = 8, longest = 1;
	bool mapped = gd_zero_groups(address, 0) == 5 && gd_group(address, 5) == 0xffff;
	bool compatible = gd_zero_groups(address, 0) == 6;
	gd_u64 at = 0;

	for (i = 0; i < 8; i++)
		if (gd_zero_groups(address, i) > longest) {
			longest = gd_zero_groups(address, i);
			run = i;
		}
	to[0] = 0;
	for (i = 0; i < 8; i++) {
		if (i >= run && i < run + longest) {
			at = i == run ? gd_append(ctx, to, at, ":", 1) : at;
			continue;
		}
		if (i)
			at = gd_append(ctx, to, at, ":", 1);
		if (i == 6 && (mapped || compatible)) {
			gd_append_ipv4(ctx, to, at, address + 12);
			return to;
		}
		at = gd_append_number(ctx, to, at, gd_group(address, i), 16);
	}
	if (run + longest == 8)
		gd_append(ctx, to, at, ":", 1);
	return to;
}

/* The same, but write an IPv4-mapped address as plain IPv4. */
static inline char *gd_inet_ntoa6_short(struct gd_context *ctx, char *to, const gd_u8 *address)
{
	gd_u32 zeros = gd_zero_groups(address, 0);

	if (zeros == 6 || (zeros == 5 && gd_group(address, 5) == 0xffff))
		return gd_inet_ntoa(ctx, to, address + 12);
	return gd_inet_ntoa6(ctx, to, address);
}

/* A random number; not for secrets. */
static inline gd_u64 gd_rand(struct gd_context *ctx)
{
	gd_u64 z = host_clock() + ctx->event->tid * 0x9e3779b97f4a7c15UL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9UL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebUL;
	return z ^ z >> 31;
}

#endif

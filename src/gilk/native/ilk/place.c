// SPDX-License-Identifier: GPL-2.0
/*
 * Checks that a unit does not overlap others. A pad may lie among the bytes that a unit of the same client has
 * displaced.
 */
#include <linux/string.h>
#include <asm/insn.h>

#include "ilk.h"

static unsigned long end_of(const struct ilk_site *site)
{
	return site->address + site->length;
}

static struct ilk_site *overlapping(unsigned long start, unsigned long end)
{
	struct ilk_site *site = ilk_site_next(start);

	return site && site->address < end ? site : NULL;
}

static bool frees_bytes(const struct ilk_site *host)
{
	return host->kind == ILK_SINGLE || host->kind == ILK_MULTI;
}

static bool idle(const u8 *bytes, u32 length)
{
	struct insn insn;
	u32 i;

	for (i = 0; i < length && (bytes[i] == 0x90 || bytes[i] == 0xcc); i++)
		;
	if (i == length)
		return true;
	if (ilk_kernel.insn_decode(&insn, bytes, length, INSN_MODE_KERN) || insn.length != length)
		return false;
	return insn.opcode.bytes[0] == 0x0f && insn.opcode.bytes[1] == 0x1f;
}

static u32 fits_host(const struct ilk_site *site, const struct ilk_site *host)
{
	const struct ilk_site *other;

	if (host->client != site->client || !frees_bytes(host))
		return ILK_OVERLAP;
	if (site->address < host->address + 5 || end_of(site) > end_of(host))
		return ILK_OVERLAP;
	list_for_each_entry(other, &host->guests, guest)
		if (site->address < end_of(other) && other->address < end_of(site))
			return ILK_OVERLAP;
	if (memcmp(site->old, host->new + (site->address - host->address), site->length))
		return ILK_STALE;
	return ILK_OK;
}

/* Set the site's host, if it has one. If another unit is in its way, `detail` is that unit's address. */
u32 ilk_place(struct ilk_site *site, u64 *detail)
{
	struct ilk_site *other = overlapping(site->address, end_of(site));
	u32 status = ILK_OK;

	if (other && site->kind == ILK_PAD) {
		status = fits_host(site, other);
		site->host = status == ILK_OK ? other : NULL;
	} else if (other) {
		status = ILK_OVERLAP;
	} else if (site->kind == ILK_PAD && !idle(site->old, site->length)) {
		return ILK_BAD_PAD;
	}
	if (status != ILK_OK)
		*detail = other->address;
	return status;
}

/* Set the pad that a short jump leads to. */
u32 ilk_place_pad(struct ilk_site *site, u32 id)
{
	struct ilk_site *pad = xa_load(&site->client->units, id);

	if (!pad || pad->kind != ILK_PAD || pad->patch != site->patch || pad->state == ILK_LEFT)
		return ILK_BAD_PAD;
	if (site->address + 2 + (s8)site->new[1] != pad->address)
		return ILK_BAD_BYTES;
	site->pad = pad;
	return ILK_OK;
}

# SPDX-License-Identifier: LGPL-2.1-or-later
"""The C that copies words between advice, which writes them, and their instance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gilk.lang.aspect.code.meeting import NumberedAspect


def commits(aspects: Sequence[NumberedAspect]) -> Iterator[str]:
    """Functions that copy the words that advice has written to the instance, and fetch those that other advice has
    written, if the instance is still open.
    """
    for aspect in aspects:
        n = aspect.number
        if aspect.checked.words:
            yield f"""\
__attribute__((unused)) static void gilk_commit_{n}(struct gilk_matched *gilk_one)
{{
struct gilk_instance gilk_seen;
gilk_u64 gilk_word;
int gilk_tries;
for (gilk_tries = 0; gilk_one->instance && gilk_tries < GILK_LOOKS; gilk_tries++) {{
gilk_word = gilk_look(&gilk_shared.part[{n}], gilk_one->instance, &gilk_seen, sizeof(struct gilk_words_{n}));
if (!gilk_word || gilk_seen.serial != gilk_one->serial) return;
if (!gilk_differ(gilk_seen.record, &gilk_one->words, sizeof(struct gilk_words_{n}))) return;
if (!gilk_take(gilk_one->instance, gilk_word)) continue;
gilk_copy(gilk_one->instance->record, &gilk_one->words, sizeof(struct gilk_words_{n}));
gilk_put(gilk_one->instance, gilk_word, gilk_stage(gilk_word));
return;
}}
}}
__attribute__((unused)) static void gilk_fetch_{n}(struct gilk_matched *gilk_one)
{{
struct gilk_instance gilk_seen;
if (gilk_one->instance
	&& gilk_look(&gilk_shared.part[{n}], gilk_one->instance, &gilk_seen, sizeof(struct gilk_words_{n}))
	&& gilk_seen.serial == gilk_one->serial)
gilk_copy(&gilk_one->words, gilk_seen.record, sizeof(struct gilk_words_{n}));
}}
"""

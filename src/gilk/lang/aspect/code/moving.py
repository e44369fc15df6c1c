# SPDX-License-Identifier: LGPL-2.1-or-later
"""The C of one aspect at one moment of a function: it moves and ends instances, and begins new ones."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from gilk.lang.aspect.automaton import Moment, Sharing
from gilk.lang.aspect.cnames import renamed
from gilk.lang.aspect.code.finding import Found, found_by, looks, looks_for_equal
from gilk.lang.aspect.code.matching import names_of
from gilk.lang.aspect.code.meeting import Met, MetElement, NumberedAspect, first_binders, uncertain
from gilk.lang.aspect.code.regions import note
from gilk.lang.aspect.code.types import binds, is_text, kept_symbols

_SHARED = {
    Sharing.ANY: "1",
    Sharing.PROCESS: "gilk_seen.pid == (gilk_u32)gilk_pid()",
    Sharing.THREAD: "gilk_seen.tid == (gilk_u32)gilk_tid() && gilk_seen.pid == (gilk_u32)gilk_pid()",
}
_PARAMETERS = """\
const struct gilk_arguments *gilk_came, const gilk_result_t *gilk_result,
	struct gilk_matched *gilk_list, unsigned gilk_count"""


def moments(met: Met) -> Iterator[str]:
    """``gilk_at_before`` and ``gilk_at_after`` have all aspects match, and return how many matches have advice."""
    for moment in Moment:
        found = _by_aspect(met.at(moment))
        for aspect, elements in found:
            yield from _of_aspect(aspect, moment, elements)
        steps = "".join(
            f"if (gilk_on >> {one.number} & 1) "
            f"gilk_count = gilk_aspect_{one.number}_{moment}(gilk_came, gilk_result, gilk_list, gilk_count);\n"
            for one, _ in found
        )
        yield f"""\
__attribute__((unused)) static unsigned gilk_at_{moment}(gilk_u64 gilk_on, {_PARAMETERS})
{{
(void)gilk_on, (void)gilk_came, (void)gilk_result, (void)gilk_list;
{steps}return gilk_count;
}}
"""


def _by_aspect(elements: Sequence[MetElement]) -> list[tuple[NumberedAspect, list[MetElement]]]:
    found: dict[int, tuple[NumberedAspect, list[MetElement]]] = {}
    for one in elements:
        found.setdefault(one.aspect.number, (one.aspect, []))[1].append(one)
    return [found[number] for number in sorted(found)]


def _of_aspect(aspect: NumberedAspect, moment: Moment, elements: list[MetElement]) -> Iterator[str]:
    if not aspect.is_sequence:
        yield _single(elements[0])
        return
    by_number = {one.number: one for one in elements}
    for one in elements:
        if one.number < len(aspect.checked.elements):
            yield _begin(one) if one.number == 0 else _step(one)
    yield _move(aspect, moment, by_number)
    yield _sequence(aspect, moment, by_number, found_by(looks(aspect, elements)))


def _room(one: MetElement) -> str:
    """The place for a match. The last place of the list is for matches whose advice finds no room, and for those
    without advice.
    """
    room = "gilk_count < GILK_MATCHED ? gilk_count : GILK_MATCHED"
    return f"gilk_list + ({room if one.advice is not None else 'GILK_MATCHED'})"


def _advised(one: MetElement) -> str:
    if one.advice is None:
        return ""
    return f"""\
gilk_one->element = {one.aspect.number | one.number << 8};
if (gilk_one == gilk_list + GILK_MATCHED) gilk_add(&gilk_part->counts.crowded, 1);
else gilk_count++;
"""


def _single(one: MetElement) -> str:
    aspect = one.aspect
    words = _first_words(aspect, one, "gilk_one->words.words_" + str(aspect.number))
    return f"""\
static unsigned gilk_aspect_{aspect.number}_{one.moment}({_PARAMETERS})
{{
struct gilk_aspect_part *gilk_part = &gilk_shared.part[{aspect.number}];
struct gilk_matched *gilk_one = {_room(one)};
struct gilk_bound_{one.name} *gilk_bound = &gilk_one->bound.bound_{one.name};
if (!gilk_match_{one.place}(gilk_came, gilk_result, 0, 0, gilk_bound, 0)) return gilk_count;
{words}gilk_one->instance = 0;
gilk_add(&gilk_part->counts.matches[0], 1);
{_advised(one)}return gilk_count;
}}
"""


def _first_words(aspect: NumberedAspect, one: MetElement, to: str) -> str:
    names = names_of(one)
    return "".join(
        f"{to}.{word.name} = ({renamed(word.initial.text, names) if word.initial is not None else '0'});\n"
        for word in aspect.checked.words
    )


def _step(one: MetElement) -> str:
    """The function for an instance that has matched: it returns -1 if another thread has moved the instance, otherwise
    the new number of matches with advice.
    """
    aspect = one.aspect
    target = aspect.automaton.after(one.number)
    kept = "" if one.checked.repeated or target is None else _keep(one, "gilk_record") + note(aspect, one.number)
    go = f"if (!gilk_pass(gilk_instance_, gilk_word, {target or 0})) return -1;\n"
    if kept:
        go = "if (!gilk_take(gilk_instance_, gilk_word)) return -1;\n"
        go += f"{kept}gilk_put(gilk_instance_, gilk_word, {target});\n"
    ended = "gilk_set_free(gilk_part, gilk_instance_);\ngilk_add(&gilk_part->counts.ended, 1);\n"
    return f"""\
static int gilk_step_{one.place}(struct gilk_aspect_part *gilk_part, struct gilk_instance *gilk_instance_,
	gilk_u64 gilk_word, const struct gilk_instance *gilk_seen, struct gilk_matched *gilk_list,
	struct gilk_matched *gilk_one, unsigned gilk_count)
{{
struct gilk_record_{aspect.number} *gilk_record = (void *)gilk_instance_->record;
struct gilk_bound_{one.name} *gilk_bound = &gilk_one->bound.bound_{one.name};
(void)gilk_record, (void)gilk_bound, (void)gilk_list, (void)gilk_seen;
{go}gilk_add(&gilk_part->counts.matches[{one.number}], 1);
{"" if target is not None else ended}\
gilk_copy(&gilk_one->words, gilk_seen->record, sizeof(struct gilk_words_{aspect.number}));
gilk_one->instance = {"gilk_instance_" if target is not None else "0"};
gilk_one->serial = gilk_seen->serial;
{_advised(one)}return (int)gilk_count;
}}
"""


def _keep(one: MetElement, record: str) -> str:
    """C that copies to the instance's record the names that the match has bound and that later elements use."""
    kept = first_binders(one.aspect)
    has = f"{record}->kept.gilk_has = gilk_bound->gilk_has;\n" if uncertain(one.aspect) else ""
    return has + "".join(
        f"gilk_copy(&{record}->kept.{name}, &gilk_bound->{name}, sizeof gilk_bound->{name});\n"
        for name in binds(one.checked)
        if name in kept
    )


def _move(aspect: NumberedAspect, moment: Moment, elements: dict[int, MetElement]) -> str:
    """The function that tries to move an open instance: it returns -1 if another thread has changed the instance
    meanwhile, otherwise the number of matches with advice.
    """
    length = len(aspect.checked.elements)
    cases = "".join(
        f"case {position}:\n"
        + "".join(_try(elements[number]) for number in aspect.automaton.active(position) if number in elements)
        + "break;\n"
        for position in range(1, length)
    )
    ends = "".join(_end(one) for number, one in elements.items() if number >= length)
    return f"""\
static int gilk_move_{aspect.number}_{moment}(struct gilk_aspect_part *gilk_part, struct gilk_instance *gilk_instance_,
	gilk_u64 gilk_word, const struct gilk_instance *gilk_seen, {_PARAMETERS})
{{
const struct gilk_record_{aspect.number} *gilk_record = (const void *)gilk_seen->record;
struct gilk_matched *gilk_one = gilk_list + (gilk_count < GILK_MATCHED ? gilk_count : GILK_MATCHED);
(void)gilk_record, (void)gilk_part, (void)gilk_instance_, (void)gilk_came, (void)gilk_result, (void)gilk_one;
switch (gilk_stage(gilk_word)) {{
{cases}}}
{ends}return (int)gilk_count;
}}
"""


def _matches(one: MetElement) -> str:
    return (
        f"gilk_match_{one.place}(gilk_came, gilk_result, &gilk_record->kept, &gilk_record->words, "
        f"&gilk_one->bound.bound_{one.name}, gilk_stage(gilk_word))"
    )


def _try(one: MetElement) -> str:
    step = f"gilk_step_{one.place}(gilk_part, gilk_instance_, gilk_word, gilk_seen, gilk_list, gilk_one, gilk_count)"
    return f"if ({_matches(one)}) return {step};\n"


def _end(one: MetElement) -> str:
    return (
        f"if ({_matches(one)}) return gilk_end(gilk_part, gilk_instance_, gilk_word, &gilk_part->counts.until)"
        " ? (int)gilk_count : -1;\n"
    )


def _stages(aspect: NumberedAspect, numbers: Collection[int]) -> int:
    """The positions, as bits, at which one of the elements is active; elements of ``until`` are active at all."""
    length = len(aspect.checked.elements)
    ends = any(number >= length for number in numbers)
    moved = (at for at in range(1, length) if ends or set(aspect.automaton.active(at)) & set(numbers))
    return sum(1 << at for at in moved)


def _sequence(aspect: NumberedAspect, moment: Moment, elements: Collection[int], found: Found) -> str:
    n = aspect.number
    last = "return gilk_count;"
    others = "if (gilk_instance_->tid != (gilk_u32)gilk_tid()) continue;\n"  # they may be writing them
    skip = others if aspect.automaton.sharing is Sharing.THREAD else ""
    near, number, bounded = found
    if 0 in elements:
        last = f"return gilk_begin_{n}_{moment}(gilk_part, gilk_came, gilk_result, gilk_list, gilk_count);"
    return f"""\
static unsigned gilk_aspect_{n}_{moment}({_PARAMETERS})
{{
struct gilk_aspect_part *gilk_part = &gilk_shared.part[{n}];
gilk_u64 gilk_at, gilk_number, gilk_end_at = gilk_high(gilk_part);
unsigned gilk_before = gilk_count;
if (!__atomic_load_n(&gilk_part->open, __ATOMIC_RELAXED)) gilk_end_at = 0;
{near}for (gilk_at = 0; gilk_at < gilk_end_at && gilk_afford(); gilk_at++) {{
gilk_number = {number};
{bounded}struct gilk_instance *gilk_instance_ = gilk_instance(gilk_part, gilk_number), gilk_seen;
gilk_u64 gilk_now_at = gilk_stage(__atomic_load_n(&gilk_instance_->word, __ATOMIC_RELAXED));
if (!({_stages(aspect, elements)}UL >> (gilk_now_at & 63) & 1)) continue;
{skip}int gilk_moved = -1, gilk_tries;
for (gilk_tries = 0; gilk_moved < 0 && gilk_tries < GILK_LOOKS; gilk_tries++) {{
gilk_u64 gilk_word = gilk_look(gilk_part, gilk_instance_, &gilk_seen, sizeof(struct gilk_record_{n}));
gilk_moved = (int)gilk_count;
if (!gilk_word || !({_SHARED[aspect.automaton.sharing]})) break;
{_closed(aspect)}if (gilk_is_late(gilk_part, gilk_instance_, gilk_word, &gilk_seen)) break;
gilk_moved = gilk_move_{n}_{moment}(gilk_part, gilk_instance_, gilk_word, &gilk_seen, gilk_came, gilk_result,
	gilk_list, gilk_count);
}}
if (gilk_moved >= 0) gilk_count = (unsigned)gilk_moved;
else gilk_add(&gilk_part->counts.missed, 1);
}}
if (gilk_at < gilk_end_at) gilk_add(&gilk_part->counts.missed, 1);
gilk_oldest_first(gilk_list, gilk_before, gilk_count);
{last}
}}
"""


def _closed(aspect: NumberedAspect) -> str:
    """C that ends texts within their arrays, whatever another process has written there."""
    texts = (name for name, (_, _, step) in first_binders(aspect).items() if is_text(step.type))
    record = f"((struct gilk_record_{aspect.number} *)gilk_seen.record)"
    return "".join(f"{record}->kept.{name}[sizeof {record}->kept.{name} - 1] = 0;\n" for name in texts)


def _begin(one: MetElement) -> str:
    """The function that begins an instance, and those that it calls, which free room for it."""
    replacing = _replace(one) if one.aspect.checked.unique is not None else ""
    return replacing + _make_room(one) + _begins(one)


def _make_room(one: MetElement) -> str:
    """The function that frees instances that nobody can continue, and those that are too old."""
    return f"""\
static void gilk_make_room_{one.aspect.number}_{one.moment}(struct gilk_aspect_part *gilk_part)
{{
gilk_u64 gilk_number;
if (!gilk_limits(gilk_part)->within && gilk_part->marked == gilk_part->counts.gone) return;
for (gilk_number = 0; gilk_number < gilk_high(gilk_part) && gilk_afford(); gilk_number++) {{
struct gilk_instance *gilk_other = gilk_instance(gilk_part, gilk_number), gilk_seen;
gilk_u64 gilk_word = gilk_look(gilk_part, gilk_other, &gilk_seen, 0);
if (gilk_word && !gilk_is_gone(gilk_part, gilk_other, gilk_word, &gilk_seen))
gilk_is_late(gilk_part, gilk_other, gilk_word, &gilk_seen);
}}
}}
"""


def _begins(one: MetElement) -> str:
    """The function that begins an instance if the first element matches and there is room."""
    aspect = one.aspect
    n = aspect.number
    replace = elect = ""
    if aspect.checked.unique is not None:
        replace = f"gilk_replace_{n}_{one.moment}(gilk_part, 0, gilk_bound);\n"
        elect = f"gilk_replace_{n}_{one.moment}(gilk_part, gilk_serial, gilk_bound);\n"
    return f"""\
static unsigned gilk_begin_{n}_{one.moment}(struct gilk_aspect_part *gilk_part, {_PARAMETERS})
{{
struct gilk_matched *gilk_one = {_room(one)};
struct gilk_bound_{one.name} *gilk_bound = &gilk_one->bound.bound_{one.name};
struct gilk_instance *gilk_instance_;
struct gilk_words_{n} gilk_first;
struct gilk_record_{n} *gilk_record;
gilk_u64 gilk_word, gilk_serial;
if (!gilk_match_{one.place}(gilk_came, gilk_result, 0, 0, gilk_bound, 0)) return gilk_count;
{_first_words(aspect, one, "gilk_first")}{replace}gilk_instance_ = gilk_begin(gilk_part, &gilk_word);
if (!gilk_instance_) {{
gilk_make_room_{n}_{one.moment}(gilk_part);
gilk_instance_ = gilk_begin(gilk_part, &gilk_word);
}}
if (!gilk_instance_) {{ gilk_add(&gilk_part->counts.lost, 1); return gilk_count; }}
gilk_record = (void *)gilk_instance_->record;
gilk_copy(&gilk_record->words, &gilk_first, sizeof gilk_first);
{_keep(one, "gilk_record")}{note(aspect, 0)}gilk_serial = gilk_instance_->serial;
gilk_put(gilk_instance_, gilk_word, 1);
__atomic_thread_fence(__ATOMIC_SEQ_CST);
{elect}gilk_add(&gilk_part->counts.matches[0], 1);
gilk_add(&gilk_part->counts.begun, 1);
gilk_copy(&gilk_one->words, &gilk_first, sizeof gilk_first);
gilk_one->instance = gilk_instance_;
gilk_one->serial = gilk_serial;
(void)gilk_serial;
{_advised(one)}return gilk_count;
}}
"""


def _replace(one: MetElement) -> str:
    """The function that ends instances with equal names. If two begin at the same time, the one with the greater serial
    number stays and the other ends itself.
    """
    aspect, n = one.aspect, one.aspect.number
    differ = "".join(
        f"if (gilk_unequal(gilk_record->kept.{name}, gilk_bound->{name})) continue;\n"
        for name in aspect.checked.unique or ()
        if name in kept_symbols(aspect)
    )
    near, number, bounded = found_by(looks_for_equal(aspect))
    return f"""\
static void gilk_replace_{n}_{one.moment}(struct gilk_aspect_part *gilk_part, gilk_u64 gilk_serial,
	const struct gilk_bound_{one.name} *gilk_bound)
{{
gilk_u64 gilk_at, gilk_number, gilk_end_at = gilk_high(gilk_part);
struct gilk_instance *gilk_own = 0;
int gilk_behind = 0;
(void)gilk_bound;
{near}for (gilk_at = 0; gilk_at < gilk_end_at && gilk_afford(); gilk_at++) {{
gilk_number = {number};
{bounded}struct gilk_instance *gilk_other = gilk_instance(gilk_part, gilk_number), gilk_seen;
const struct gilk_record_{n} *gilk_record = (const void *)gilk_seen.record;
gilk_u64 gilk_word;
(void)gilk_record;
gilk_again:
gilk_word = gilk_look(gilk_part, gilk_other, &gilk_seen, sizeof(struct gilk_record_{n}));
if (!gilk_word || !({_SHARED[aspect.automaton.sharing]})) continue;
{differ}if (gilk_serial && gilk_seen.serial == gilk_serial) {{ gilk_own = gilk_other; continue; }}
if (gilk_is_late(gilk_part, gilk_other, gilk_word, &gilk_seen)) continue;
if (gilk_serial && gilk_seen.serial > gilk_serial) {{ gilk_behind = 1; continue; }}
if (!gilk_end(gilk_part, gilk_other, gilk_word, &gilk_part->counts.replaced)) goto gilk_again;
}}
if (gilk_behind && gilk_own) gilk_give_way(gilk_part, gilk_own, gilk_serial);
}}
"""

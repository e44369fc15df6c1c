# SPDX-License-Identifier: LGPL-2.1-or-later
"""The C of advice: a function for each element with advice, and the functions that run the advice of the matches at one
moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from gilk.lang.aspect.checked import CheckedAdvice
from gilk.lang.aspect.cnames import declares, renamed
from gilk.lang.aspect.code.matching import line, names_of
from gilk.lang.aspect.code.meeting import Met, MetElement
from gilk.lang.syntax.source import Source

_WHEN = {"before": "GILK_OBSERVES_BEFORE", "inplace": "GILK_STANDS_IN_PLACE", "after": "GILK_OBSERVES_AFTER"}


def advice_functions(met: Met, source: Source) -> Iterator[str]:
    for one in met.elements:
        if one.advice is not None:
            yield _inplace(one, one.advice, met, source) if one.advice.when == "inplace" else _observer(one, source)


def _observer(one: MetElement, source: Source) -> str:
    assert one.advice is not None
    return f"""\
#undef GILK_WHOSE
#define GILK_WHOSE {whose(one)}
static void gilk_advice_{one.name}(struct gilk_bound_{one.name} *gilk_bound,
	struct gilk_words_{one.aspect.number} *gilk_words)
{{
(void)gilk_bound, (void)gilk_words;
{_body(one, one.advice, source)}
}}
"""


def _inplace(one: MetElement, advice: CheckedAdvice, met: Met, source: Source) -> str:
    """The function for advice in place. It returns 0 if the text of the advice ends without ``return``."""
    typed = ""
    if one.value is not None:
        typed = f"typedef __typeof__({one.value.text}) gilk_typed_t __attribute__((unused));\n"
    last = "" if met.is_void else f"{{ static const {_result(one, met)} gilk_nothing; return gilk_nothing; }}"
    return f"""\
#undef GILK_WHOSE
#define GILK_WHOSE {whose(one)}
static {_result(one, met)} gilk_advice_{one.name}(struct gilk_woven_call *gilk_call, unsigned gilk_at,
	const struct gilk_arguments *gilk_came, struct gilk_bound_{one.name} *gilk_bound,
	struct gilk_words_{one.aspect.number} *gilk_words)
{{
{typed}(void)gilk_call, (void)gilk_at, (void)gilk_came, (void)gilk_bound, (void)gilk_words;
{_body(one, advice, source)}
{last}
}}
"""


def _result(one: MetElement, met: Met) -> str:
    """The result type of advice in place. For memory found by its address it is the type of the memory, although the C
    around it uses a number.
    """
    return "gilk_result_t" if one.value is None or met.is_void else f"__typeof__({one.value.text})"


def whose(one: MetElement) -> int:
    """The number that identifies an element among those of all aspects."""
    return one.aspect.number | one.number << 8


def _body(one: MetElement, advice: CheckedAdvice, source: Source) -> str:
    """The text of advice with its names replaced, except those that the advice itself declares."""
    names = {name: to for name, to in names_of(one).items() if not declares(advice.body.text, name)}
    text = renamed(advice.body.text, names)
    return f"{line(source, advice.body.span)}\n{text}{'' if advice.block else ';'}"


def runners(met: Met) -> str:
    """``gilk_observe``, which runs the advice of a match before or after the event. nest() has ``gilk_next``."""
    return "".join(_runners(met))


def _runners(met: Met) -> Iterator[str]:
    advised = [one for one in met.elements if one.advice is not None]
    observers = [one for one in advised if one.advice is not None and one.advice.when != "inplace"]
    yield f"""\
static void gilk_observe(struct gilk_matched *gilk_one)
{{
(void)gilk_one;
switch (gilk_one->element) {{
{_cases(observers, _observing)}}}
}}
"""


def _observing(one: MetElement) -> str:
    words = f"words_{one.aspect.number}"
    return f"gilk_advice_{one.name}(&gilk_one->bound.bound_{one.name}, &gilk_one->words.{words});{_commit(one)} break;"


def _commit(one: MetElement) -> str:
    """A call that copies the words that advice has written to the instance; "" if the aspect has no words."""
    return f" gilk_commit_{one.aspect.number}(gilk_one);" if one.aspect.checked.words else ""


def _fetch(one: MetElement) -> str:
    """A call that fetches the words that other advice may have written; "" if the aspect has no words."""
    return f" gilk_fetch_{one.aspect.number}(gilk_one);" if one.aspect.checked.words else ""


def _cases(elements: Iterable[MetElement], what: Callable[[MetElement], str]) -> str:
    return "".join(f"case {whose(one)}: {what(one)}\n" for one in elements)


def nest(met: Met) -> str:
    """``gilk_next`` runs the next advice in place, or the function itself with the matches at its return.
    ``gilk_inner`` does the same for advice that proceeds, and lets other advice see and change the words of the
    instance meanwhile.
    """
    replacing = [one for one in met.elements if one.advice is not None and one.advice.when == "inplace"]
    wordy = [one for one in replacing if one.aspect.checked.words]
    void = met.is_void
    return f"""\
__attribute__((unused)) static gilk_result_t gilk_inner(struct gilk_woven_call *gilk_call, unsigned gilk_at,
	const struct gilk_arguments *gilk_came)
{{
struct gilk_matched *gilk_one = gilk_call->list + gilk_at;
{"" if void else "gilk_result_t gilk_result;"}
(void)gilk_one;
switch (gilk_one->element) {{
{_cases(wordy, lambda one: f"{_commit(one)} break;")}}}
{"" if void else "gilk_result = "}gilk_next(gilk_call, gilk_at + 1, gilk_came);
switch (gilk_one->element) {{
{_cases(wordy, lambda one: f"{_fetch(one)} break;")}}}
{"" if void else "return gilk_result;"}
}}
static gilk_result_t gilk_next(struct gilk_woven_call *gilk_call, unsigned gilk_at,
	const struct gilk_arguments *gilk_came)
{{
for (; gilk_at < gilk_call->matched; gilk_at++) {{
struct gilk_matched *gilk_one = gilk_call->list + gilk_at;
(void)gilk_one;
switch (gilk_one->element) {{
{_cases(replacing, lambda one: _standing(one, met))}}}
}}
{"" if void else "return "}gilk_original(gilk_call, gilk_came);
}}
"""


def standing(one: MetElement, result: str) -> str:
    """A call of advice in place that never proceeds. ``result`` is the C that takes its value, as in ``x =``."""
    bound = f"&gilk_one->bound.bound_{one.name}, &gilk_one->words.words_{one.aspect.number}"
    return f"{_fetch(one)} {result}gilk_advice_{one.name}(0, 0, gilk_came, {bound});{_commit(one)}"


def _standing(one: MetElement, met: Met) -> str:
    bound = f"&gilk_one->bound.bound_{one.name}, &gilk_one->words.words_{one.aspect.number}"
    call = f"gilk_advice_{one.name}(gilk_call, gilk_at, gilk_came, {bound});"
    if met.is_void:
        return f"{_fetch(one)} {call}{_commit(one)} return;"
    if one.value is not None:
        result = f"gilk_result_t gilk_result = 0; {_result(one, met)} gilk_read;"
        moved = "gilk_move(&gilk_result, &gilk_read, sizeof gilk_read);"
        return f"{{ {result} {_fetch(one)} gilk_read = {call}{_commit(one)} {moved} return gilk_result; }}"
    return f"{{ gilk_result_t gilk_result; {_fetch(one)} gilk_result = {call}{_commit(one)} return gilk_result; }}"

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Tables of pages as CSV and as Arrow: the address of a page with ``.csv`` or ``.arrow`` in place of ``.json``.

They have the rows that the page shows, for programs that read tables: spreadsheets, pandas, DuckDB.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gilk.errors import GilkError
from gilk.web.answers import failed
from gilk.web.children import ToldError

if TYPE_CHECKING:
    import pyarrow as pa

Json = dict[str, Any]
Rows = Sequence[Mapping[str, Any]]
Handler = Callable[[Request], Awaitable[Json]]
_ARROW: Final = "application/vnd.apache.arrow.stream"


def table_routes(twins: Mapping[str, Handler]) -> list[Route]:
    """The routes of all tables. ``twins``: the handlers of the JSON twins, by address."""
    forms = {".csv": (as_csv, "text/csv; charset=utf-8"), ".arrow": (as_arrow, _ARROW)}
    return [
        Route(f"{path}{ending}", _answering(twins[f"{path}.json"], rows, form, kind))
        for path, rows in TABLES.items()
        for ending, (form, kind) in forms.items()
    ]


def _answering(
    handler: Handler, rows: Callable[[Json], Rows], form: Callable[[Rows], bytes], kind: str
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            return Response(form(rows(await handler(request))), media_type=kind)
        except ToldError as error:
            return failed(error)
        except GilkError as error:
            return failed(ToldError(error.slug, error.message, error.hint))

    return endpoint


def _answer(found: Json) -> Rows:
    return [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]


def _counts(found: Json) -> Rows:
    return [{"point": point, "hits": hits} for point, hits in found.get("counts", {}).items()]


#: By the address of a page, the function that returns the rows of its table from its JSON.
TABLES: Final[Mapping[str, Callable[[Json], Rows]]] = {
    "/index": lambda found: found["processes"],
    "/target/{target}": lambda found: found["images"],
    "/target/{target}/symbols": lambda found: found["rows"],
    "/session/{number}": _counts,
    "/traces": lambda found: found["files"],
    "/file/{file}/flame": lambda found: found["bars"],
    "/file/{file}/anomalies": lambda found: found["anomalies"],
    "/file/{file}/sql": _answer,
}


def as_csv(rows: Rows) -> bytes:
    """The rows as CSV with a line of names; a cell with parts has them as JSON."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(_names(rows))
    writer.writerows([[_cell(row.get(name)) for name in _names(rows)] for row in rows])
    return text.getvalue().encode("utf-8", "backslashreplace")


def as_arrow(rows: Rows) -> bytes:
    """The rows as an Arrow IPC stream."""
    import pyarrow as pa  # here: the server begins without it, and most never need it

    columns = {name: _column([_cell(row.get(name)) for row in rows]) for name in _names(rows)}
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def _names(rows: Rows) -> list[str]:
    """The names of all columns, in the order in which rows have them."""
    return list(dict.fromkeys(name for row in rows for name in row))


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict | list | tuple) else value


def _column(values: list[Any]) -> pa.Array:
    """A column of one type; addresses in a kernel need 64 bits without a sign."""
    import pyarrow as pa

    try:
        if any(isinstance(value, int) and value >= 1 << 63 for value in values):
            return pa.array(values, pa.uint64())
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError):
        texts = [None if value is None else str(value).encode("utf-8", "backslashreplace").decode() for value in values]
        return pa.array(texts, pa.string())

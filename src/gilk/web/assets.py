# SPDX-License-Identifier: LGPL-2.1-or-later
"""The static files: read once, and served under a name with a digest of all of them, so that a browser may keep them
for ever.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from gilk.values import dataclass

_PLACE: Final = Path(__file__).parent / "assets"
_TYPES: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".html": "text/html"}
_FOREVER: Final = "public, max-age=31536000, immutable"
#: The files without which a page would stay blank.
NEEDED: Final = ("page.html", "main.js", "style.css", "icon.svg")


@dataclass(frozen=True)
class Assets:
    files: dict[str, bytes]
    digest: str

    @property
    def missing(self) -> list[str]:
        return [name for name in NEEDED if name not in self.files]

    def page(self, status: int = 200) -> Response:
        """The frame of every page, which contains nothing about this machine."""
        frame = self.files["page.html"].replace(b"DIGEST", self.digest.encode())
        return Response(frame, status, media_type="text/html")

    async def file(self, request: Request) -> Response:
        name = request.path_params["name"]
        if request.path_params["digest"] != self.digest or name not in self.files or name == "page.html":
            return Response("there is no such file\n", 404, media_type="text/plain")
        kind = _TYPES[Path(name).suffix]
        return Response(self.files[name], media_type=kind, headers={"cache-control": _FOREVER})


def load(place: Path = _PLACE) -> Assets:
    files = {path.name: path.read_bytes() for path in sorted(place.iterdir()) if path.suffix in _TYPES}
    whole = hashlib.sha256(b"\0".join(part for name, text in files.items() for part in (name.encode(), text)))
    return Assets(files, whole.hexdigest()[:16])

# SPDX-License-Identifier: LGPL-2.1-or-later
"""An error in the middle of making functions ready: the follower goes on with other functions."""

from __future__ import annotations

from typing import Any

import pytest

import gilk
from gilk.engines.follow.client import ClientFollower
from gilk.engines.follow.scope import TraceScope
from tests.behaviour.harness import Loop, differences, wait_for
from tests.programs.build import build


def test_a_follower_goes_on_after_preparing_some_functions_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The functions are planned one by one, a few at a time, as is done for images whose plans cannot be cached."""
    with Loop([build("many", "n200")]) as loop:
        with gilk.attach(loop.pid) as other, ClientFollower(other.process) as follower:
            insert, times = follower._client.insert, []

            def refusing(asked: Any, dormant: bool = False) -> Any:
                times.append(len(asked))
                if len(times) == 2:
                    raise gilk.TargetError("image-gone", "it has gone")
                return insert(asked, dormant)

            monkeypatch.setattr(follower._client, "insert", refusing)
            monkeypatch.setattr(follower, "_place", lambda _loaded, _template, starts: (None, starts))
            _, trouble = follower.prepare(other.images[:1], TraceScope.parse(["many:f*"]))
            assert len(times) == 2 and [word for word in trouble if "image-gone" in word or "it has gone" in word]
            ready, trouble = follower.prepare(other.images[:1], TraceScope.parse(["many:f1*"]))
            assert ready and not trouble
            follower.follow(ready)
            assert wait_for(lambda: follower.poll().num_rows > 10)
        assert differences(loop.pid) == []

# SPDX-License-Identifier: LGPL-2.1-or-later
"""Advice in C before, after and in place of calls."""

from __future__ import annotations

from gilk.session.advised_session import AdvisedSession
from gilk.session.advising import Advice, advice

__all__ = ["Advice", "AdvisedSession", "advice"]

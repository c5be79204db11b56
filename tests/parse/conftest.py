"""Generated texts are judged by what is read from them: a machine that is busy is no failure."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("parse", deadline=None)
settings.load_profile("parse")

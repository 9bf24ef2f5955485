"""`load`: an endpoint or a program under load, and the highest rate that keeps a promise."""

from __future__ import annotations

from laptime.verbs.load.request import LoadRequest as LoadRequest
from laptime.verbs.load.run import load as load

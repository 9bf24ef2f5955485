"""Names of the optimizations that findings may point to: those of the room, so that each can be tried."""

from __future__ import annotations

from laptime.kit import registry

NAMES = frozenset(registry.names("optimizations"))

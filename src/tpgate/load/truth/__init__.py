"""A server whose every emission is scheduled and logged: the truth that the load client is held to."""

from __future__ import annotations

from tpgate.load.truth.emissions import Emission, Kind, emissions, truth_of
from tpgate.load.truth.server import Schedule, TruthServer, start

__all__ = ["Emission", "Kind", "Schedule", "TruthServer", "emissions", "start", "truth_of"]

"""A campaign: launches of one scenario, judged after each, until the verdict is decided."""

from __future__ import annotations

from tpgate.campaign.plan import Campaign, Outcome
from tpgate.campaign.run import measure

__all__ = ["Campaign", "Outcome", "measure"]

"""Whether the server that was measured is still the one that was started."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tpgate.host.arguments import argument_keys
from tpgate.measure.result import Doubt

_MOST_NAMED = 3


def change_doubts(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Doubt]:
    """Return a doubt where version or arguments of a server changed during a launch: something restarted it.

    Args:
        before: What it answered on /server_info when it was ready.
        after: What it answers after a cell.
    """
    mine = {"version": before.get("version"), **argument_keys(before)}
    theirs = {"version": after.get("version"), **argument_keys(after)}
    names = [name for name in sorted(mine.keys() | theirs.keys()) if mine.get(name) != theirs.get(name)]
    if not names:
        return []
    rows = ", ".join(f"{name} {mine.get(name)} -> {theirs.get(name)}" for name in names[:_MOST_NAMED])
    reason = f"the server is not the one that was started: {rows}" + (" and more" if len(names) > _MOST_NAMED else "")
    advice = "find what restarted or replaced it (a supervisor, a rolling update); its log tells"
    return [Doubt(check="server_changed", reason=reason, advice=advice)]

"""Is the last night with a verdict young enough? Standard library only.

    heartbeat.py --max-age-hours H < artifacts.json      the answer of /repos/OWNER/NAME/actions/artifacts
    heartbeat.py --max-age-hours H --state DIR           nights on this host

A night that never ran leaves nothing red behind it: a runner that is offline queues, a schedule that GitHub switched
off after 60 quiet days says nothing. This asks from outside. Exit code 0, or 6 where no verdict is young enough; a
red verdict is a verdict.
"""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

INFRASTRUCTURE = 6
PREFIX = "verdict-"


def from_artifacts(document: object) -> list[datetime]:
    """Return when verdicts were uploaded, expired ones included.

    Raises:
        ValueError: The document is not what the API answers (an error page is not an empty list).
    """
    if not isinstance(document, dict) or not isinstance(document.get("artifacts"), list):
        raise ValueError("the answer holds no list of artifacts")
    named = [item for item in document["artifacts"] if str(item.get("name", "")).startswith(PREFIX)]
    return [datetime.fromisoformat(item["created_at"]) for item in named]


def from_state(folder: Path) -> list[datetime]:
    """Return when verdicts were written on this host."""
    return [datetime.fromtimestamp(path.stat().st_mtime, UTC) for path in folder.glob("nights/*/verdict.json")]


def answer(moments: list[datetime], now: datetime, hours: float) -> tuple[int, str]:
    """Return (exit code, sentence)."""
    past = [moment for moment in moments if moment <= now]
    if not past:
        return INFRASTRUCTURE, "no night has ever given a verdict"
    age = (now - max(past)).total_seconds() / 3600
    text = f"the last verdict is {age:.1f} h old, at most {hours:g} h are allowed"
    return (INFRASTRUCTURE if age > hours else 0), text


def main(words: list[str]) -> int:
    """Say how old the last verdict is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max-age-hours", type=float, required=True)
    parser.add_argument("--state", type=Path, default=None, metavar="DIR")
    options = parser.parse_args(words)
    try:
        moments = from_state(options.state) if options.state else from_artifacts(json.load(sys.stdin))
    except (ValueError, KeyError, OSError) as error:
        sys.stdout.write(f"::error title=heartbeat::cannot be read: {error}\n")
        return INFRASTRUCTURE
    code, text = answer(moments, datetime.now(UTC), options.max_age_hours)
    sys.stdout.write(f"::error title=heartbeat::{text}\n" if code else f"{text}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

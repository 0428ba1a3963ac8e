"""Write the HTML report of every result of a night beside it; a page that fails to be written is said."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tpgate.cli import main as tpgate


def main(words: list[str]) -> int:
    """Write the pages and return 0, or 6 where one could not be written."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--night", type=Path, required=True, metavar="FOLDER")
    options = parser.parse_args(words)
    failed = 0
    for path in sorted(options.night.glob("results/*/result.json")):
        page = path.parent / "report.html"
        failed |= tpgate(["report", str(path.parent), "--format", "html", "--output", str(page)])
    return 6 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The main job in under a minute, against the scripted stand-in server: record, judge, inject a regression, see red.

Every step's exit code is checked against what it must be; the demo fails where one differs.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RUN = [sys.executable, "-m", "tpgate", "run", "standin-tp4", "--quiet"]
STEPS = (
    ("record a provisional local baseline (3 launches), then judge one more launch", ["--record"], 0),
    (
        "inject a regression: decode steps 60 % longer",
        ["--server-option", "fault_decode_slower=0.6", "--max-launches", "1"],
        1,
    ),
    ("inject a broken server: it miscounts its tokens", ["--server-option", "fault_miscount=16"], 3),
)


def main() -> int:
    """Run the steps and return 0 only if every exit code is the expected one."""
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="tpgate-demo-") as folder:
        for text, options, expected in STEPS:
            print(f"\n=== {text}; expected exit code {expected}", flush=True)
            began = time.monotonic()
            command = [*RUN, "--results", str(Path(folder) / "results"), *options]
            code = subprocess.run(command, cwd=ROOT, check=False).returncode
            verdict = "as expected" if code == expected else "NOT AS EXPECTED"
            print(f"=== exit code {code}, {verdict} ({time.monotonic() - began:.0f} s)", flush=True)
            wrong += code != expected
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())

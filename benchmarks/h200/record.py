"""What an unattended run on the H200 has measured so far, written after every case."""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
import time
import traceback
from pathlib import Path

import torch
import triton


class Record:
    """Everything that was measured, written after every case."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self.path = folder / "kernels.json"
        self.begun = time.monotonic()
        self.until = self.begun + seconds
        self.data: dict = {"checks": [], "cases": [], "errors": []}

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.begun

    def add(self, kind: str, entry: dict) -> None:
        """Append an entry and write the file."""
        self.data[kind].append(entry)
        self.save()
        print(json.dumps(entry)[:300], flush=True)

    def save(self) -> None:
        """Write the file as a whole or not at all."""
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text(json.dumps(self.data, indent=1))
        temporary.replace(self.path)

    def attempt(self, name: str, work, *, always: bool = False):
        """Run ``work``; a failure is recorded and is no reason to stop. Past the time limit nothing new is begun."""
        if not always and time.monotonic() > self.until:
            self.data.setdefault("out_of_time", []).append(name)
            self.save()
            return None
        try:
            return work()
        except Exception as error:  # noqa: BLE001
            self.add("errors", {"case": name, "error": f"{type(error).__name__}: {error}"[:1500],
                                "where": traceback.format_exc()[-1200:]})  # fmt: skip
            return None


def environment(device: str) -> dict:
    smi = subprocess.run(
        ["nvidia-smi", "--query-gpu=name,driver_version,clocks.sm,clocks.mem,power.limit,temperature.gpu",
         "--format=csv,noheader"], capture_output=True, text=True, check=False)  # fmt: skip
    properties = torch.cuda.get_device_properties(device)
    return {
        "at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "device": properties.name, "processors": properties.multi_processor_count, "l2_bytes": properties.L2_cache_size,
        "torch": torch.__version__, "cuda": torch.version.cuda, "triton": triton.__version__,
        "python": sys.version.split()[0], "smi": smi.stdout.strip(), "command": " ".join(sys.argv),
    }  # fmt: skip


def table(data: dict) -> None:
    """Print the fastest tile of every kernel and case."""
    best: dict = {}
    for row in data["cases"]:
        key = (row["case"], row["kernel"])
        if key not in best or row["us"] < best[key]["us"]:
            best[key] = row
    for (case, kernel), row in sorted(best.items()):
        rates = f"{row['tflops']:6.0f} TFLOP/s {row['gbps']:6.0f} GB/s"
        share = f"{row['roofline'] * 100:5.1f} % of {row['limit']:10s}"
        name = row["tile"] or "-"
        print(
            f"{case:24s} {kernel:22s} {name:18s} {row['us']:9.1f} us {share} {rates} re-read {row['reread'] or 0:.2f}"
        )

"""From kernels.json to the tables and the chart of docs/kernels.md.

    python3 benchmarks/h200/kernel_report.py OUT/kernels.json docs --keep docs/data/kernels-h200.json
    python3 benchmarks/h200/kernel_report.py docs/data/kernels-h200.json docs

Writes docs/kernels-h200.svg and prints the tables as Markdown. Nothing in them comes from anywhere but the file.
``--keep`` writes what the tables rest on (all timings as medians, counters from the ncu.csv beside the file, errors as
one line each, the worst of the checks) to a file small enough to check in; the second command makes the same from it.
"""

from __future__ import annotations

import argparse
import csv
import json
from html import escape
from math import log10
from pathlib import Path
from statistics import median

HEADLINE = "b64-k2048-h128-bf16"
ROUNDS = ("1", "2", "3")
LABELS = {
    "naive": "naive tiled",
    "shared": "head-shared, Triton",
    "hopper": "head-shared, Gluon",
    "flashmla-prefill-bf16": "FlashMLA (sparse, bf16)",
}
COLOURS = {"naive": "#9a3412", "shared": "#2563eb", "hopper": "#0f766e", "flashmla-prefill-bf16": "#6b7280"}
KEEP = (
    "case",
    "kernel",
    "tile",
    "round",
    "us",
    "spread",
    "limit",
    "bound_us",
    "tflops",
    "reread",
    "clock_mhz",
)
LAUNCHED = ("naive h1n16x1w4s2", "shared h64n64x1w8s3", "shared h64n32x1w8s3", "hopper h64n64x1w8s2")
"""What ``kernels.py --one-launch`` launches, in its order."""


def side_by_side(data: dict) -> list[dict]:
    """Return one row a kernel: the median over the rounds in which the kernels took turns."""
    rows: dict[str, list[dict]] = {}
    for case in data["cases"]:
        if case["case"] == HEADLINE and case.get("round") in ROUNDS:
            rows.setdefault(case["kernel"], []).append(case)
    found = []
    for kernel, group in rows.items():
        us = median(row["us"] for row in group)
        work = group[0]["tflops"] * group[0]["us"]
        found.append(
            group[0] | {"us": us, "tflops": work / us, "kernel": kernel, "rounds": [row["us"] for row in group]}
        )
    return sorted(found, key=lambda row: -row["us"])


def best(data: dict) -> list[dict]:
    """Return the fastest head-shared kernel of every case, from the sweep."""
    found: dict[str, dict] = {}
    for row in data["cases"]:
        swept = row["kernel"] in ("shared", "hopper") and not row["round"]
        if swept and (row["case"] not in found or row["us"] < found[row["case"]]["us"]):
            found[row["case"]] = row
    return [found[name] for name in sorted(found)]


def table(rows: list[dict]) -> list[str]:
    lines = [
        "| case | kernel | tile | time (µs) | of the roofline | bound by | TFLOP/s | re-read factor |",
        "| --- | --- | --- | ---: | ---: | --- | ---: | ---: |",
    ]
    for row in rows:
        reread = f"{row['reread']:.2f}" if row["reread"] else "not counted"
        lines.append(
            f"| {row['case']} | {LABELS.get(row['kernel'], row['kernel'])} | {row['tile'] or ''} | {row['us']:.1f} | "
            f"{row['bound_us'] / row['us'] * 100:.1f} % | {row['limit']} | {row['tflops']:.1f} | {reread} |"
        )
    return lines


def turns(rows: list[dict]) -> list[str]:
    """Return the rounds behind the medians."""
    return [f"{row['kernel']}: " + ", ".join(f"{us:.1f}" for us in row["rounds"]) + " µs" for row in rows]


def traffic(counters: list[dict]) -> list[str]:
    """Return what Nsight Compute counted for one launch each."""
    lines = ["| launch | read from memory (MB) | through the L2 (MB) | time (µs) |", "| --- | ---: | ---: | ---: |"]
    return lines + [
        f"| {one['launch']} | {one['dram__bytes_read.sum'] / 1e6:.1f} | {one['lts__t_bytes.sum'] / 1e6:,.0f} | "
        f"{one['gpu__time_duration.sum'] / 1e3:,.1f} |"
        for one in counters
    ]


def read_counters(path: Path) -> list[dict]:
    """Return the counters of every launch in an ncu.csv, whose first lines are the profiler's own words."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith('"')]
    found: dict[str, dict] = {}
    for row in csv.DictReader(lines):
        one = found.setdefault(row["ID"], {"launch": LAUNCHED[int(row["ID"])], "kernel": row["Kernel Name"]})
        if not row["Kernel Name"].startswith(f"mla_{one['launch'].split()[0]}_"):
            raise SystemExit(f"{path}: launch {row['ID']} is {row['Kernel Name']}, expected {one['launch']}")
        one[row["Metric Name"]] = int(row["Metric Value"].replace(",", ""))
    return list(found.values())


def kept(data: dict, counters: list[dict]) -> dict:
    """Return what the documentation rests on: a tenth of the file."""
    errors = [{"case": error["case"], "error": " ".join(error["error"].split())[:240]} for error in data["errors"]]
    worst = max(value for check in data["checks"] for value in check.values() if isinstance(value, float))
    environment = data["environment"] | {"command": "benchmarks/h200/kernels.py OUT --seconds 220"}
    cases = [{name: shorter(row[name]) for name in KEEP} for row in data["cases"]]
    return {
        "made_by": "benchmarks/h200/kernel_report.py OUT/kernels.json docs --keep docs/data/kernels-h200.json",
        "environment": environment, "peaks": data["peaks"], "seconds": round(data["seconds"]),
        "samples": "25 a timing, 11 of the naive kernel",
        "checks": {"kernels": len(data["checks"]), "passed": sum(c["passed"] for c in data["checks"]), "worst": worst},
        "errors": errors, "copies": data["copies"], "counters": counters, "cases": cases,
    }  # fmt: skip


def shorter(value):
    """Return a number with six digits, which is more than it was measured to."""
    return float(f"{value:.6g}") if isinstance(value, float) else value


def write_kept(path: Path, data: dict) -> None:
    """Write one row a line."""
    parts = []
    for name, value in data.items():
        if isinstance(value, list):
            rows = ",\n  ".join(json.dumps(row) for row in value)
            parts.append(f'"{name}": [\n  {rows}\n ]')
        else:
            parts.append(f'"{name}": {json.dumps(value)}')
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{\n " + ",\n ".join(parts) + "\n}\n", encoding="utf-8")


def chart(rows: list[dict]) -> str:
    """Return every round of every kernel as a dot on a logarithmic axis, with the bound as a line."""
    bound = rows[0]["bound_us"]
    low, high = log10(30), log10(40_000)
    left, width, step, top = 190, 520, 40, 34
    bottom = top + step * len(rows)

    def across(us: float) -> float:
        return left + width * (log10(us) - low) / (high - low)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 130} {bottom + 62}" role="img" '
        'font-family="system-ui, sans-serif" font-size="14" fill="#1f2937">',
        f"<title>Time of one sparse-MLA decode step, {escape(HEADLINE)}, by kernel</title>",
        f'<rect width="{left + width + 130}" height="{bottom + 62}" fill="#ffffff"/>',
    ]
    for tick in (100, 1_000, 10_000):
        x = f"{across(tick):.1f}"
        parts += [
            f'<line x1="{x}" x2="{x}" y1="{top - 14}" y2="{bottom}" stroke="#e5e7eb"/>',
            f'<text x="{x}" y="{bottom + 20}" text-anchor="middle" fill="#4b5563">{tick:,} µs</text>',
        ]
    x = f"{across(bound):.1f}"
    parts += [
        f'<line x1="{x}" x2="{x}" y1="{top - 14}" y2="{bottom}" stroke="#dc2626" stroke-dasharray="4 3"/>',
        f'<text x="{x}" y="{top - 18}" text-anchor="middle" fill="#b91c1c">'
        f"{rows[0]['limit']} bound {bound:.1f} µs</text>",
    ]
    for index, row in enumerate(rows):
        middle = top + step * index + step / 2
        colour = COLOURS.get(row["kernel"], "#6b7280")
        dots = "".join(f'<circle cx="{across(us):.1f}" cy="{middle:.0f}" r="5.5"/>' for us in row["rounds"])
        parts += [
            f'<text x="{left - 12}" y="{middle + 5:.0f}" text-anchor="end">'
            f"{escape(LABELS.get(row['kernel'], row['kernel']))}</text>",
            f'<g fill="{colour}" fill-opacity="0.6">{dots}</g>',
            f'<text x="{across(max(row["rounds"])) + 12:.1f}" y="{middle + 5:.0f}">{row["us"]:,.1f} µs, '
            f"{bound / row['us'] * 100:.1f} %</text>",
        ]
    parts += [
        f'<text x="{left + width / 2:.0f}" y="{bottom + 46}" text-anchor="middle" fill="#4b5563">time of one call, '
        "logarithmic; a dot a round; median, and its share of the roofline</text>",
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("docs", type=Path)
    parser.add_argument("--keep", type=Path, help="write what the tables rest on to this file")
    options = parser.parse_args()
    data = json.loads(options.file.read_text(encoding="utf-8"))
    counters = data.get("counters") or read_counters(options.file.with_name("ncu.csv"))
    rows = side_by_side(data)
    (options.docs / "kernels-h200.svg").write_text(chart(rows), encoding="utf-8")
    if options.keep:
        write_kept(options.keep, kept(data, counters))
    peaks, environment = data["peaks"], data["environment"]
    print(f"Measured {environment['at']} on {environment['smi']}")
    print(
        f"copy {peaks['copy_bytes_per_s'] / 1e12:.2f} TB/s, matmul {peaks['matmul_flops_per_s'] / 1e12:.0f} TFLOP/s\n"
    )
    print("\n".join([*table(rows), "", *turns(rows), "", *table(best(data)), "", *traffic(counters)]))


if __name__ == "__main__":
    main()

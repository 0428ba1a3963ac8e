"""From kernels.json to the table and the chart of docs/kernels.md.

    python3 benchmarks/h200/kernel_report.py kernels.json docs/

Writes docs/kernels-h200.svg and prints the tables as Markdown. Nothing in them comes from anywhere but the file.
"""

from __future__ import annotations

import argparse
import json
from html import escape
from pathlib import Path
from statistics import median

HEADLINE = "b64-k2048-h128-bf16"
LABELS = {
    "naive": "naive tiled",
    "shared": "head-shared, Triton",
    "hopper": "head-shared, Gluon",
    "flashmla-prefill-bf16": "FlashMLA (sparse, bf16)",
}
COLOURS = {"naive": "#9a3412", "shared": "#2563eb", "hopper": "#0f766e", "flashmla-prefill-bf16": "#6b7280"}


def side_by_side(data: dict) -> list[dict]:
    """Return one row a kernel: the median over the rounds in which the kernels took turns."""
    rows: dict[str, list[dict]] = {}
    for case in data["cases"]:
        if case["case"] == HEADLINE and case.get("round") in ("1", "2", "3"):
            rows.setdefault(case["kernel"], []).append(case)
    found = [
        group[0] | {"us": median(row["us"] for row in group), "rounds": len(group)} | {"kernel": kernel}
        for kernel, group in rows.items()
    ]
    for row in found:
        row["roofline"] = row["bound_us"] / row["us"]
    return sorted(found, key=lambda row: -row["us"])


def best(data: dict) -> list[dict]:
    """Return the fastest head-shared kernel of every case."""
    found: dict[str, dict] = {}
    for row in data["cases"]:
        if row["kernel"] in ("shared", "hopper") and (row["case"] not in found or row["us"] < found[row["case"]]["us"]):
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
            f"{row['roofline'] * 100:.1f} % | {row['limit']} | {row['tflops']:.0f} | {reread} |"
        )
    return lines


def chart(rows: list[dict]) -> str:
    """Return the bars of time by kernel on a logarithmic axis, with the bound as a line."""
    from math import log10

    bound = rows[0]["bound_us"]
    low, high = log10(bound) - 0.15, log10(max(row["us"] for row in rows)) + 0.25
    left, width, step = 190, 520, 44
    height = 70 + step * len(rows)

    def across(us: float) -> float:
        return left + width * (log10(us) - low) / (high - low)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 110} {height}" '
        'font-family="system-ui, sans-serif" font-size="14">',
        f"<title>Time of one sparse-MLA decode step, {escape(HEADLINE)}</title>",
    ]
    for index, row in enumerate(rows):
        top = 20 + step * index
        label = LABELS.get(row["kernel"], row["kernel"])
        end = across(row["us"])
        colour = COLOURS.get(row["kernel"], "#6b7280")
        parts += [
            f'<text x="{left - 10}" y="{top + 19}" text-anchor="end" fill="currentColor">{escape(label)}</text>',
            f'<rect x="{left}" y="{top}" width="{end - left:.1f}" height="28" fill="{colour}"/>',
            f'<text x="{end + 6:.1f}" y="{top + 19}" fill="currentColor">{row["us"]:.0f} µs</text>',
        ]
    x = across(bound)
    parts += [
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="8" y2="{height - 40}" stroke="#dc2626" stroke-dasharray="4 3"/>',
        f'<text x="{x:.1f}" y="{height - 22}" text-anchor="middle" fill="#dc2626">'
        f"{rows[0]['limit']} bound {bound:.0f} µs (logarithmic axis)</text>",
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("docs", type=Path)
    options = parser.parse_args()
    data = json.loads(options.file.read_text(encoding="utf-8"))
    rows = side_by_side(data)
    (options.docs / "kernels-h200.svg").write_text(chart(rows), encoding="utf-8")
    peaks = data["peaks"]
    print(f"Measured {data['environment']['at']} on {data['environment']['smi']}")
    print(
        f"copy {peaks['copy_bytes_per_s'] / 1e12:.2f} TB/s, matmul {peaks['matmul_flops_per_s'] / 1e12:.0f} TFLOP/s\n"
    )
    print("\n".join([*table(rows), "", *table(best(data))]))


if __name__ == "__main__":
    main()

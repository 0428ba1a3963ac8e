"""The README's picture of the terminal table, drawn from what render() returns.

Make it again with ``python tests/report/table_picture.py``; a test keeps it equal to the code.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

from report_results import judgement_of

from tpgate.report.terminal import render

PICTURE = Path(__file__).parents[2] / "docs" / "images" / "table.svg"
COMMAND = "tpgate run llama-8b-tp1 --server-option disable_cuda_graph=true"
CLASSES = {
    "1;31": "red",
    "32": "green",
    "36": "cyan",
    "1;35": "magenta",
    "1;33": "yellow",
    "33": "yellow",
    "1": "b",
    "2": "dim",
}
STYLE = (
    "text{font:13px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;fill:#d6dbe0;white-space:pre}"
    ".red{fill:#ff8a80;font-weight:700}.green{fill:#63c78c}.cyan{fill:#5cc4d4}.magenta{fill:#d79be6;font-weight:700}"
    ".yellow{fill:#e6b84f;font-weight:700}.b{font-weight:700;fill:#fff}.dim{fill:#8b96a1}"
)
WIDTH_PX, LINE_PX, PAD_PX = 7.83, 19, 18


def line_svg(line: str) -> str:
    """One line with ANSI colours as tspans."""
    parts, style = [], ""
    for piece in re.split(r"(\x1b\[[0-9;]*m)", line):
        if piece.startswith("\x1b["):
            style = CLASSES.get(piece[2:-1], "")
        elif piece:
            parts.append(f'<tspan class="{style}">{escape(piece)}</tspan>' if style else escape(piece))
    return "".join(parts)


def picture() -> str:
    """The SVG."""
    shown = [
        f"\x1b[2m$\x1b[0m {COMMAND}",
        "",
        *render(judgement_of(), color=True, width=100, reproduce=f"{COMMAND} --cell c16"),
    ]
    widest = max(len(re.sub(r"\x1b\[[0-9;]*m", "", line)) for line in shown)
    width, height = round(widest * WIDTH_PX + 2 * PAD_PX), len(shown) * LINE_PX + 2 * PAD_PX - 4
    rows = [
        f'<text x="{PAD_PX}" y="{PAD_PX + 11 + index * LINE_PX}" xml:space="preserve">{line_svg(line)}</text>'
        for index, line in enumerate(shown)
        if line
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" role="img">',
            "<title>tpgate in a terminal: a server without CUDA graphs is REGRESSED in every cell</title>",
            f"<style>{STYLE}</style>",
            f'<rect width="{width}" height="{height}" rx="6" fill="#14181d"/>',
            *rows,
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(picture(), encoding="utf-8")

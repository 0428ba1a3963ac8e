"""Write docs/result.schema.json again from the types: ``python tests/report/schema_page.py``."""

from __future__ import annotations

from pathlib import Path

from tpgate.report.exports.schema import schema_text

PAGE = Path(__file__).parents[2] / "docs" / "result.schema.json"

if __name__ == "__main__":
    PAGE.write_text(schema_text(), encoding="utf-8")

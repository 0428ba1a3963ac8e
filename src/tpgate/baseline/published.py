"""The JSON Schema of baseline files, generated from the types that read them."""

from __future__ import annotations

import json
import sys
from typing import Any

import msgspec

from tpgate.baseline.schema import SCHEMA_VERSION, Baseline


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a baseline file."""
    schema = msgspec.json.schema(Baseline)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "tpgate baseline"
    schema["$defs"]["Baseline"]["properties"]["schema_version"] = {"const": SCHEMA_VERSION}
    return schema


def text() -> str:
    """Return the content of ``baselines/schema.json``."""
    return json.dumps(json_schema(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())

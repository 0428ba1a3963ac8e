"""The JSON schema of :func:`tpgate.report.exports.documents.result_json`, made from the types themselves."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from tpgate.measure.result import Result
from tpgate.report.exports.documents import SCHEMA_ID
from tpgate.stats.verdict import Judgement


def result_schema() -> dict[str, Any]:
    """Return the schema (JSON Schema 2020-12); ``docs/result.schema.json`` holds it, and a test keeps the two equal."""
    (result, judgement), components = msgspec.json.schema_components((Result, Judgement), ref_template="#/$defs/{name}")
    tool = {"type": "object", "properties": {"name": {"const": "tpgate"}, "version": {"type": "string"}}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        "title": "A tpgate result with its judgement",
        "type": "object",
        "properties": {
            "$schema": {"const": SCHEMA_ID},
            "tool": {**tool, "required": ["name", "version"]},
            "result": result,
            "judgement": {"anyOf": [judgement, {"type": "null"}]},
        },
        "required": ["$schema", "tool", "result", "judgement"],
        "additionalProperties": False,
        "$defs": {name: _first_paragraph(form) for name, form in components.items()},
    }


def _first_paragraph(form: dict[str, Any]) -> dict[str, Any]:
    """The form with the sentence that says what it is, without the Python side's list of attributes."""
    words = str(form.get("description", "")).split("\n\n")[0]
    return {**form, "description": " ".join(words.split())}


def schema_text() -> str:
    """Return the text of ``docs/result.schema.json``."""
    return json.dumps(result_schema(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"

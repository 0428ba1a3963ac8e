"""Reading and writing baseline and result files: each way in which a file can be wrong is its own clear error."""

from __future__ import annotations

import json
import math
import os
import re
import tempfile
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import msgspec

from tpgate.baseline.schema import SCHEMA_VERSION, Baseline
from tpgate.errors import BaselineError, ConfigError
from tpgate.measure import result as result_module
from tpgate.measure.definitions import metric
from tpgate.measure.result import Result

REFRESH = "tpgate refresh RESULT… makes a baseline file; git checkout restores a checked-in one"
RESULT_FILE = "result.json"
LIMIT_BYTES = 256 << 20
"""Size above which a file is refused: no baseline and no result comes near it."""
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")

_Form = TypeVar("_Form", Baseline, Result)


def _unique(items: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in items:
        if key in found:
            raise ValueError(f"key {key!r} stands twice in one object")
        found[key] = value
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number that can be compared")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is not a finite number")
    return value


def _read_object(path: Path, kind: str) -> dict[str, Any]:
    try:
        if path.stat().st_size > LIMIT_BYTES:
            raise BaselineError(f"{path}: larger than {LIMIT_BYTES >> 20} MiB", expected=f"a {kind} file")
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise BaselineError(
            f"{path}: no such {kind} file", expected=f"the path of a {kind}", next_step=f"ls {path.parent}"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise BaselineError(f"{path}: cannot be read: {error}", expected=f"a {kind} file in UTF-8") from None
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_float=_finite, parse_constant=_refuse_constant)
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        cut = " (the file is cut off)" if text.strip() and not text.rstrip().endswith("}") else ""
        raise BaselineError(f"{path}: not JSON at {where}: {error.msg}{cut}", next_step=REFRESH) from None
    except UnicodeEncodeError:
        raise BaselineError(f"{path}: holds half a character (a lone surrogate)", next_step=REFRESH) from None
    except (ValueError, RecursionError) as error:
        raise BaselineError(
            f"{path}: {error}", expected="finite numbers and distinct keys", next_step=REFRESH
        ) from None
    if not isinstance(value, dict) or not value:
        raise BaselineError(f"{path}: holds nothing ({text.strip()[:20]!r})", expected=f"a {kind}", next_step=REFRESH)
    return value


def _convert(path: Path, kind: str, value: dict[str, Any], form: type[_Form], version: int) -> _Form:
    found = value.get("schema_version")
    if found != version:
        raise BaselineError(
            f"{path}: schema_version is {found!r}",
            expected=f"{version}, the version that this tpgate reads",
            next_step="install the tpgate that wrote the file, or make it again with tpgate refresh",
        )
    try:
        return msgspec.convert(value, form, strict=True)
    except msgspec.ValidationError as error:
        raise BaselineError(f"{path}: {error}", expected=f"the form of a {kind} (see baselines/schema.json)") from None


def check_number(where: str, name: str, value: float) -> None:
    """Refuse a value that no comparison can rest on.

    Raises:
        BaselineError: NaN, infinite, negative, or 0 where the metric cannot be 0; names ``where``.
    """
    zero_is_real = metric(name).may_be_zero
    if not math.isfinite(value) or value < 0 or (value == 0 and not zero_is_real):
        expected = "a finite value of 0 or more" if zero_is_real else "a finite value above 0"
        raise BaselineError(f"{where}: {name} is {value}", expected=expected, next_step="measure it again")


def _check_forms(path: Path, baseline: Baseline) -> None:
    for name, form in baseline.metrics.items():
        try:
            definition = metric(name)
        except ConfigError as error:
            raise BaselineError(f"{path}: {error.what}", expected=error.expected, next_step=error.next_step) from None
        for what, stored, known in (
            ("unit", form.unit, definition.unit.symbol),
            ("better", form.better, definition.better.value),
        ):
            if stored != known:
                raise BaselineError(f"{path}: metrics.{name}.{what} is {stored!r}", expected=repr(known))


def _check_launches(path: Path, baseline: Baseline) -> None:
    seen: set[str] = set()
    for launch in baseline.launches:
        if launch.launch_id in seen:
            raise BaselineError(f"{path}: launch {launch.launch_id} stands twice", expected="distinct launches")
        seen.add(launch.launch_id)
        for cell, values in launch.values.items():
            where = f"{path}: launch {launch.launch_id}, cell {cell}"
            for name, value in values.items():
                if name not in baseline.metrics:
                    raise BaselineError(
                        f"{where}: {name} has no entry under metrics", expected="its unit and direction"
                    )
                check_number(where, name, value)
        for promise in baseline.promises:
            if promise.metric not in launch.values.get(promise.cell, {}):
                raise BaselineError(
                    f"{path}: launch {launch.launch_id} lacks {promise.metric} in cell {promise.cell}",
                    expected="every promised metric of every cell in every launch",
                    next_step=REFRESH,
                )


def check_baseline(path: Path, baseline: Baseline) -> None:
    """Refuse a baseline whose parts do not fit together.

    Raises:
        BaselineError: No cell, launch or promise, a promise of an unknown cell, a wrong unit or direction, an unknown
            metric, a value that is no number, a launch that stands twice or lacks a promised value.
    """
    for name, content in (("cells", baseline.cells), ("launches", baseline.launches), ("promises", baseline.promises)):
        if not content:
            raise BaselineError(f"{path}: {name} is empty", expected="at least one", next_step=REFRESH)
    _check_forms(path, baseline)
    _check_launches(path, baseline)
    names = {(promise.cell, promise.metric) for promise in baseline.promises}
    for kind, entries in (("tolerances", baseline.tolerances), ("waivers", baseline.waivers)):
        for entry in entries:
            if (entry.cell, entry.metric) not in names:
                raise BaselineError(f"{path}: {kind} names {entry.cell}:{entry.metric}, which is not promised")


def load_baseline(path: Path, *, in_store: bool = False) -> Baseline:
    """Read a baseline file.

    Args:
        path: The file.
        in_store: Whether its place ``<hardware>/<scenario>.json`` must agree with its content.

    Raises:
        BaselineError: The file is missing, cut off, or anything in it is wrong; says what and where.
    """
    baseline = _convert(path, "baseline", _read_object(path, "baseline"), Baseline, SCHEMA_VERSION)
    check_baseline(path, baseline)
    if in_store and (path.parent.name, path.stem) != (baseline.hardware, baseline.scenario):
        raise BaselineError(
            f"{path}: holds {baseline.hardware}/{baseline.scenario}", expected=f"{path.parent.name}/{path.stem}"
        )
    return baseline


def load_result(path: Path) -> Result:
    """Read a result: a ``result.json``, or the folder that holds one.

    Raises:
        BaselineError: It is missing, cut off, or not a result of this version.
    """
    file = path / RESULT_FILE if path.is_dir() else path
    found = _convert(file, "result", _read_object(file, "result"), Result, result_module.SCHEMA_VERSION)
    if not found.launches:
        raise BaselineError(
            f"{file}: holds no launch", expected="at least one", next_step=f"tpgate run {found.scenario}"
        )
    return found


def load_either(path: Path) -> Baseline | Result:
    """Read a file or result folder that is a baseline or a result, told apart by their own keys."""
    file = path / RESULT_FILE if path.is_dir() else path
    content = _read_object(file, "baseline or result")
    return load_baseline(file) if "promises" in content or "hardware" in content else load_result(file)


def render(value: Baseline | Result) -> str:
    """Return the text of a file: sorted keys, two spaces, one newline at the end."""
    plain = msgspec.to_builtins(value)
    return json.dumps(plain, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def write_atomically(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` so that a reader, or a crash, sees the old file or the new one and nothing between."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise

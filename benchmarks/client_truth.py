"""Load clients against a server whose every emission is known: what each of them reports, costs, and gets wrong.

    python benchmarks/client_truth.py
    python benchmarks/client_truth.py --clients tpgate,aiohttp,httpx --http-python PATH/bin/python
    python benchmarks/client_truth.py --levels 1024 --waves 7 --clients tpgate      # a million tokens

The server runs on one core and the client on another. Truth comes from the server's log of the same run, so a late
server is not blamed on the client. CPU is that of the whole process tree less that of a run with one request, so that
imports do not count; memory is the peak of the largest process. ``--help`` names the options for other environments.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clients import peers
from tpgate.load.truth import Schedule, start, truth_of
from tpgate.load.truth.emissions import RequestTruth

HERE = Path(__file__).parent
SCRIPTS = {name: HERE / "clients" / f"{name}_client.py" for name in ("tpgate", "aiohttp", "httpx")}
HEADINGS = ("client", "C", "tok/s (truth)", "TTFT true p50", "err p50", "err p99", "TPOT true p50", "err p50",
            "err p99", "µs/token", "MB", "failed")  # fmt: skip


@dataclass(frozen=True)
class Cost:
    """What a client's process tree used: CPU seconds, and peak MB of its largest process."""

    cpu_s: float
    peak_mb: float
    status: int


def quantile(values: list[float], share: float) -> float:
    """Return the nearest-rank quantile."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def spawn(command: list[str], cpus: set[int], log: Path, timeout_s: float) -> Cost:
    """Run a client on its cores and return what it cost."""
    env = {key: value for key, value in os.environ.items() if key != "HF_HUB_OFFLINE"}
    with log.open("ab") as output:
        process = subprocess.Popen(
            ["timeout", str(timeout_s), *command],
            stdout=output,
            stderr=output,
            env=env,
            preexec_fn=lambda: os.sched_setaffinity(0, cpus),
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, process.returncode)


def settings_of(options: argparse.Namespace, level: int, requests: int, warmup: int) -> dict[str, Any]:
    """Return what a client is told to do."""
    return {
        "concurrency": level,
        "requests": requests,
        "warmup": warmup,
        "input_tokens": options.input_tokens,
        "output_tokens": options.output_tokens,
        "api": options.api,
        "processes": options.processes if level >= options.processes else 1,
    }


def once(name: str, options: argparse.Namespace, settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Run one client once against a fresh server; return its answer, its cost and the truth."""
    out = folder / "answer.json"
    out.unlink(missing_ok=True)
    schedule = Schedule(
        tick_us=options.tick_us, first_us=options.first_us, chunk=options.chunk, cumulative=options.cumulative
    )
    with start(schedule, cpus=frozenset(options.server_cpus)) as server:
        if name in SCRIPTS:
            python = sys.executable if name == "tpgate" else options.http_python
            command = [python, str(SCRIPTS[name]), server.url, json.dumps(settings), str(out)]
        else:
            command = peers.command(name, options, server.url, settings, folder)
        cost = spawn(command, set(options.client_cpus), folder / f"{name}.log", options.timeout)
        log = server.emissions()
    answer = json.loads(out.read_text()) if name in SCRIPTS and out.exists() else None
    if name not in SCRIPTS:
        answer = peers.answer(name, folder)
    by = "request" if name in SCRIPTS else "ordinal"
    return {"answer": answer, "cost": cost, "truth": truth_of(log, by), "native": server.native}


def true_rate(truth: dict[int, RequestTruth]) -> float:
    """Return emitted tokens / (last emission - first arrival)."""
    whole = [each for each in truth.values() if each.emitted]
    tokens = sum(each.emitted[-1][1] for each in whole)
    span = max(each.emitted[-1][0] for each in whole) - min(each.arrived_ns for each in whole)
    return tokens / (span / 1e9)


def row_of(name: str, level: int, found: dict[str, Any], base: Cost) -> dict[str, Any]:
    """Return one line of the table as plain values; times in ms, TPOT errors as fractions."""
    answer, truth, cost = found["answer"], found["truth"], found["cost"]
    row: dict[str, Any] = {"client": name, "level": level, "native_server": found["native"], "status": cost.status}
    whole = {key: each for key, each in truth.items() if each.tpot_ns}
    if answer is None or not whole:
        return {**row, "note": f"no answer (exit {cost.status})"}
    ttft = [each.ttft_ns / 1e6 for each in whole.values()]
    tpot = [each.tpot_ns / 1e6 for each in whole.values()]
    tokens = sum(each.emitted[-1][1] for each in whole.values())
    row |= {"true_ttft_p50_ms": quantile(ttft, 0.5), "true_tpot_p50_ms": quantile(tpot, 0.5)}
    row |= {"true_tokens_per_second": true_rate(truth), "failed": answer.get("failed"), "tokens": tokens}
    row |= {"us_per_token": (cost.cpu_s - base.cpu_s) / tokens * 1e6, "peak_mb": cost.peak_mb}
    if "requests" in answer:
        pairs = [(one, truth[int(index)]) for index, *one in answer["requests"] if int(index) in whole]
        late = [one[0] - each.ttft_ns / 1e6 for one, each in pairs]
        wrong = [one[1] / (each.tpot_ns / 1e6) - 1 for one, each in pairs]
        row["tokens_per_second"] = answer["tokens"] / answer["seconds"] if answer["seconds"] else None
        row |= {"ttft_error_p50_ms": quantile(late, 0.5), "ttft_error_p99_ms": quantile(late, 0.99)}
        row |= {"tpot_error_p50": quantile(wrong, 0.5), "tpot_error_p99": quantile([abs(x) for x in wrong], 0.99)}
        row |= {key: answer[key] for key in ("own_us_per_token", "cpu_share", "lag_p99_ms", "late_stamps")
                if key in answer}  # fmt: skip
    else:
        row |= peers.errors(answer, ttft, tpot, quantile)
    return row


def line_of(row: dict[str, Any]) -> str:
    """Return a row of the Markdown table."""

    def show(key: str, form: str, scale: float = 1.0) -> str:
        value = row.get(key)
        return "-" if value is None else form.format(value * scale)

    if "note" in row:
        return f"| {row['client']} | {row['level']} | {row['note']} |" + " |" * (len(HEADINGS) - 3)
    cells = (
        row["client"],
        str(row["level"]),
        f"{show('tokens_per_second', '{:.0f}')} ({show('true_tokens_per_second', '{:.0f}')})",
        show("true_ttft_p50_ms", "{:.1f} ms"),
        show("ttft_error_p50_ms", "{:+.2f} ms"),
        show("ttft_error_p99_ms", "{:+.2f} ms"),
        show("true_tpot_p50_ms", "{:.2f} ms"),
        show("tpot_error_p50", "{:+.3f} %", 100),
        show("tpot_error_p99", "{:.3f} %", 100),
        show("us_per_token", "{:.1f}"),
        show("peak_mb", "{:.0f}"),
        show("failed", "{:.0f}"),
    )
    return "| " + " | ".join(cells) + " |"


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    numbers = lambda text: [int(part) for part in text.split(",")]  # noqa: E731
    cores = sorted(os.sched_getaffinity(0))
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--levels", type=numbers, default=[1, 16, 64, 256, 1024])
    p.add_argument("--clients", type=lambda text: text.split(","), default=["tpgate"])
    p.add_argument("--api", choices=("generate", "completions", "chat"), default="completions")
    p.add_argument("--waves", type=int, default=2, help="measured requests per slot, after one wave of warm-up")
    p.add_argument("--input-tokens", type=int, default=256)
    p.add_argument("--output-tokens", type=int, default=128)
    p.add_argument("--tick-us", type=int, default=20_000)
    p.add_argument("--first-us", type=int, default=50_000)
    p.add_argument("--chunk", type=int, default=1)
    p.add_argument("--cumulative", action="store_true")
    p.add_argument("--processes", type=int, default=1, help="client processes of tpgate")
    p.add_argument("--repeat", type=int, default=1)
    p.add_argument("--timeout", type=float, default=300)
    p.add_argument("--server-cpus", type=numbers, default=cores[:1])
    p.add_argument("--client-cpus", type=numbers, default=cores[1:2] or cores[:1])
    p.add_argument("--http-python", default=sys.executable, help="Python with aiohttp, httpx, uvloop and orjson")
    p.add_argument("--aiperf", help="path of the aiperf command")
    p.add_argument("--guidellm", help="path of the guidellm command")
    p.add_argument("--sglang-python", help="Python with sglang, for bench_serving")
    p.add_argument("--json", type=Path, help="also write every row here, one JSON object a line")
    return p


def main() -> None:
    """Print the table."""
    options = parser().parse_args()
    print("| " + " | ".join(HEADINGS) + " |\n|" + "---|" * len(HEADINGS))
    with tempfile.TemporaryDirectory(prefix="client-truth-") as temporary:
        folder = Path(temporary)
        for name in options.clients:
            base = once(name, options, settings_of(options, 1, 1, 1), folder)["cost"]
            for level in options.levels * options.repeat:
                requests = max(options.waves * level, 4)
                row = row_of(
                    name, level, once(name, options, settings_of(options, level, requests, level), folder), base
                )
                print(line_of(row), flush=True)
                if "note" in row:
                    tail = (folder / f"{name}.log").read_text(errors="replace").splitlines()[-5:]
                    print(*(f"    {text}" for text in tail), sep="\n", file=sys.stderr)
                if options.json:
                    with options.json.open("a") as file:
                        file.write(json.dumps(row) + "\n")
    print(f"\n{shlex.join(sys.argv)}")


if __name__ == "__main__":
    main()

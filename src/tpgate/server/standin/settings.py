"""The stand-in's settings, faults included, and the command line that is made from them."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

T = TypeVar("T")


def _option(default: T, text: str) -> T:
    """Return a dataclass field with a help text."""
    made: T = field(default=default, metadata={"help": text})
    return made


@dataclass(frozen=True, slots=True)
class Faults:
    """What is wrong with the server on purpose; every default is harmless. Options carry the prefix ``--fault-``.

    ``*_slower`` are fractions (0.1 is 10 % longer). ``*_every`` counts requests of more than one token, from 1; 0 is
    never. The meaning of each field stands in its help text.
    """

    decode_slower: float = _option(0.0, "every part of a decode step longer by this fraction")
    prefill_slower: float = _option(0.0, "prefill longer by this fraction")
    attention_slower: float = _option(0.0, "attention kernels longer by this fraction, in the step and in the trace")
    moe_slower: float = _option(0.0, "expert kernels longer by this fraction, in the step and in the trace")
    gemm_slower: float = _option(0.0, "dense matrix products longer by this fraction, in the step and in the trace")
    all_reduce_slower: float = _option(0.0, "all-reduces longer by this fraction, in the step and in the trace")
    extra_all_reduce: int = _option(0, "further all-reduces a layer")
    straggler_us: float = _option(0.0, "the last rank comes to every all-reduce so many microseconds late")
    scheduler_sleep_ms: float = _option(0.0, "idle time before every decode step")
    graphs_off: int = _option(0, "1: kernels are launched one by one, with gaps between them")
    per_request_slower: float = _option(0.0, "cost of each further running request higher by this fraction")
    max_running: int = _option(0, "at most so many requests run together, whatever the arguments say; 0: no such cap")
    stall_every: int = _option(0, "every n-th decode step stalls")
    stall_ms: float = _option(200.0, "length of such a stall")
    cold_steps: int = _option(0, "the first n steps at each new batch size are slow")
    cold_slower: float = _option(3.0, "by this fraction")
    prefix_cache: float = _option(0.0, "share of every prompt that is taken from the prefix cache")
    miscount: int = _option(0, "completion_tokens counts one token too many after every n tokens")
    duplicate_every: int = _option(0, "every n-th request sends one chunk twice")
    counter_off: float = _option(0.0, "the /metrics token counters grow faster by this fraction")
    no_counts: int = _option(0, "1: meta_info holds no completion_tokens")
    drop_every: int = _option(0, "every n-th request is closed in mid-stream")
    error_event_every: int = _option(0, "every n-th request gets an error event inside its 200 stream")
    refuse_every: int = _option(0, "every n-th request is answered 503")
    garbage_every: int = _option(0, "every n-th request gets bytes that are no event")
    trickle_every: int = _option(0, "every n-th request is sent byte by byte")
    silent_every: int = _option(0, "every n-th request goes silent in mid-stream and stays open")
    early_stop_every: int = _option(0, "every n-th request ends at half its length, finish reason length")
    early_eos_every: int = _option(0, "every n-th request ends at half its length, finish reason stop")
    die_after_requests: int = _option(0, "the process ends with status 17 in the middle of the n-th request")
    hang_after_requests: int = _option(0, "no token after the n-th request; /health still answers 200")
    never_ready: int = _option(0, "1: /health stays 503 and no request is answered")
    exit_at_start: int = _option(0, "1: the process writes a reason and ends with status 3 before it listens")
    fill_log_kib: int = _option(0, "write so many KiB to standard output at the start, and again every 1000 steps")
    version_after_requests: int = _option(0, "after n requests it says that it is another version")
    missing_rank_trace: int = _option(-1, "this rank writes no trace")
    cut_trace: int = _option(-1, "this rank's trace file ends in mid-stream")
    empty_trace: int = _option(0, "1: traces hold CPU events only")
    fewer_ranks: int = _option(0, "so many ranks fewer than asked for are reported and traced")
    profile_fails: int = _option(0, "1: /start_profile answers 500")


@dataclass(frozen=True, slots=True)
class Settings:
    """How the stand-in behaves. Times are in milliseconds of true, scheduled time.

    A decode step takes ``step_ms + per_request_ms * running``; a prefill takes ``prefill_ms`` a prompt, one prompt
    after the other, and goes before decode, which it starves.
    """

    host: str = _option("127.0.0.1", "address to listen on")
    port: int = _option(0, "port; 0 takes a free one and prints it")
    step_ms: float = _option(4.0, "decode step without any request")
    per_request_ms: float = _option(0.05, "added to a decode step by each running request")
    prefill_ms: float = _option(1.0, "prefill of one prompt")
    startup_ms: float = _option(0.0, "time until the server listens")
    shutdown_ms: float = _option(0.0, "time from the signal that ends it to its end")
    tp: int = _option(1, "tensor-parallel ranks")
    layers: int = _option(8, "layers of the model, in traces")
    vocabulary: int = _option(2048, "token ids are below this")
    max_running_requests: int = _option(256, "requests decoded together; the others wait")
    stream_interval: int = _option(1, "tokens a chunk, after the first")
    incremental_streaming_output: int = _option(1, "1: chunks hold new ids only; 0: all ids so far")
    reasoning_tokens: int = _option(0, "first so many tokens of a chat answer are reasoning")
    trace_write_ms: float = _option(20.0, "the scheduler stands still so long while traces are written")
    version: str = _option("0.5.23", "SGLang version that it says it is")
    served_model_name: str = _option("standin", "model name")
    model_path: str = _option("standin", "model path that it reports")
    decode_log_interval: int = _option(40, "steps between updates of gen_throughput")
    disable_cuda_graph: int = _option(0, "1: the same as --fault-graphs-off 1")
    disable_radix_cache: int = _option(0, "1: no prompt token is ever taken from a cache")
    faults: Faults = Faults()


IGNORED = (
    "device",
    "load-format",
    "skip-tokenizer-init",
    "mem-fraction-static",
    "max-total-tokens",
    "enable-metrics",
    "attention-backend",
    "sampling-backend",
    "random-seed",
    "log-level",
    "cuda-graph-max-bs",
    "cuda-graph-max-bs-decode",
    "cuda-graph-bs",
    "context-length",
    "chunked-prefill-size",
    "schedule-policy",
    "watchdog-timeout",
    "skip-server-warmup",
    "trust-remote-code",
    "dtype",
    "quantization",
    "kv-cache-dtype",
    "stream-output",
)
"""Arguments of SGLang that are taken and shown in /server_info, and change nothing."""

_ALIASES = {"tp": ("--tp-size", "--tensor-parallel-size")}


def _add(parser: argparse.ArgumentParser, of: type, prefix: str) -> None:
    for entry in fields(of):
        if dataclasses.is_dataclass(entry.default):
            continue
        default: Any = entry.default
        kind = type(default)
        names = (f"--{prefix}{entry.name.replace('_', '-')}", *_ALIASES.get(entry.name, ()))
        more: dict[str, Any] = {"nargs": "?", "const": 1} if kind is int else {}
        text = f"{entry.metadata['help']} (default {default})".replace("%", "%%")
        dest = prefix.replace("-", "_") + entry.name
        parser.add_argument(*names, dest=dest, type=kind, default=default, help=text, **more)


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser: one option a field, ``--fault-…`` for those of :class:`Faults`."""
    made = argparse.ArgumentParser(
        prog="python -m tpgate.server.standin",
        description="A scripted server that speaks SGLang's protocol and whose truth is known.",
        allow_abbrev=False,
    )
    _add(made, Settings, "")
    _add(made, Faults, "fault-")
    for name in IGNORED:
        made.add_argument(f"--{name}", nargs="?", const="true", default=None, help=argparse.SUPPRESS)
    return made


def parse(argv: Sequence[str] | None = None) -> tuple[Settings, dict[str, str]]:
    """Return the settings of a command line, and the SGLang arguments that it took and ignored.

    Raises:
        SystemExit: An option is unknown or out of range; argparse has written why.
    """
    made = parser()
    values = vars(made.parse_args(argv))
    faults = Faults(**{entry.name: values[f"fault_{entry.name}"] for entry in fields(Faults)})
    own = {entry.name: values[entry.name] for entry in fields(Settings) if entry.name != "faults"}
    settings = Settings(**own, faults=faults)
    for name in ("step_ms", "per_request_ms", "prefill_ms", "startup_ms", "shutdown_ms", "trace_write_ms"):
        if getattr(settings, name) < 0:
            made.error(f"--{name.replace('_', '-')} is {getattr(settings, name)}, expected 0 or more")
    for name in ("tp", "layers", "vocabulary", "max_running_requests", "stream_interval"):
        if getattr(settings, name) < 1:
            made.error(f"--{name.replace('_', '-')} is {getattr(settings, name)}, expected 1 or more")
    if faults.fewer_ranks >= settings.tp:
        made.error(f"--fault-fewer-ranks is {faults.fewer_ranks}, expected less than --tp {settings.tp}")
    if settings.disable_cuda_graph and not faults.graphs_off:
        settings = dataclasses.replace(settings, faults=dataclasses.replace(faults, graphs_off=1))
    ignored = {name.replace("-", "_"): values[name.replace("-", "_")] for name in IGNORED}
    return settings, {name: value for name, value in ignored.items() if value is not None}

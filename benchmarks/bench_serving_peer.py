"""Our client beside sglang.bench_serving on one server: whole-run throughput must agree, TTFT is explained.

Both drive the same SGLang server (the CPU engine by default) in ABBA order with the same number of prompts, lengths and
concurrency. bench_serving needs text in the stream, so the served model gets a tiny word-level tokenizer.

    python benchmarks/bench_serving_peer.py --python PATH_OF_A_PYTHON_WITH_SGLANG
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tpgate.load.generator import drive
from tpgate.load.records import LoadResult
from tpgate.server import process
from tpgate.server.api import Api
from tpgate.specs import LoadSpec, ModelSpec, ServerSpec, pairs

ROOT = Path(__file__).resolve().parent.parent
VARIABLE = "TPGATE_PEER_MODEL"


def write_model(folder: Path) -> dict[str, object]:
    """Write config.json and a word-level tokenizer of the same vocabulary, and return the config."""
    config = dict(runpy.run_path(str(ROOT / "perf_tests" / "scenarios.py"))["TINY_LLAMA"])
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    words = {f"w{number}": number for number in range(int(config["vocab_size"]))}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "model": {"type": "WordLevel", "vocab": words, "unk_token": "w0"},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "w1", "eos_token": "w2", "unk_token": "w0"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return config


def ours(url: str, load: LoadSpec, vocabulary: int, salt: str) -> dict[str, float]:
    """Drive the load once and return its whole-run figures."""
    result: LoadResult = drive(url, load, vocabulary=vocabulary, salt=salt)
    bad = [record.outcome for record in result.records if not record.ok]
    if bad:
        raise SystemExit(f"{len(bad)} requests failed: {bad[0]}")
    first = min(record.started_ns for record in result.records)
    last = max(record.chunk_ns[-1] for record in result.records)
    tokens = sum(record.output_tokens for record in result.records)
    ttft = [record.ttft_ns / 1e6 for record in result.records if record.ttft_ns is not None]
    tpot = [record.tpot_ns / 1e6 for record in result.records if record.tpot_ns is not None]
    return {
        "tok_s": tokens / ((last - first) / 1e9),
        "ttft_p50_ms": statistics.median(ttft),
        "tpot_p50_ms": statistics.median(tpot),
    }


def theirs(
    python: str, url: str, load: LoadSpec, model: Path, out: Path, environment: dict[str, str]
) -> dict[str, float]:
    """Run sglang.bench_serving once and return the same figures as it reports them."""
    out.unlink(missing_ok=True)
    command = [python, "-m", "sglang.bench_serving", "--backend", "sglang", "--base-url", url]
    command += ["--model", str(model), "--tokenizer", str(model), "--dataset-name", "random-ids", "--tokenize-prompt"]
    command += ["--random-input-len", str(load.input_tokens), "--random-output-len", str(load.output_tokens)]
    command += ["--random-range-ratio", "1.0", "--num-prompts", str(load.requests + load.warmup_requests)]
    command += ["--max-concurrency", str(load.concurrency), "--output-file", str(out), "--disable-tqdm"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode or not out.exists():
        raise SystemExit(f"bench_serving ended with {done.returncode}:\n{done.stdout[-1500:]}\n{done.stderr[-3000:]}")
    row = json.loads(out.read_text().splitlines()[-1])
    return {
        "tok_s": row["output_throughput"],
        "ttft_p50_ms": row["median_ttft_ms"],
        "tpot_p50_ms": row["median_tpot_ms"],
    }


def main() -> int:
    """Measure in ABBA order and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--prompts", type=int, default=128)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    load = LoadSpec(
        concurrency=arguments.concurrency,
        requests=arguments.prompts - arguments.concurrency,
        warmup_requests=arguments.concurrency,
        input_tokens=arguments.tokens,
        output_tokens=arguments.tokens,
    )
    rows: list[tuple[str, dict[str, float]]] = []
    with tempfile.TemporaryDirectory(prefix="tpgate-peer-") as name:
        folder = Path(name)
        config = write_model(folder / "model")
        os.environ[VARIABLE] = str(folder / "model")
        options = pairs(
            attention_backend="torch_native", mem_fraction_static=0.3, max_total_tokens=20000, load_format="dummy"
        )
        spec = ServerSpec(ModelSpec("peer", path_variable=VARIABLE), device="cpu", options=options)
        with process.start(spec, folder=folder, python=arguments.python) as server:
            environment = {**os.environ, **dict(server.command.variables)}
            for number in range(arguments.rounds):
                for who in ("ours", "theirs", "theirs", "ours"):
                    Api(server.url).flush_cache()
                    if who == "ours":
                        row = ours(server.url, load, int(config["vocab_size"]), f"{number}{len(rows)}")
                    else:
                        row = theirs(
                            arguments.python, server.url, load, folder / "model", folder / "out.jsonl", environment
                        )
                    rows.append((who, row))
                    print(f"{who:7} " + "  ".join(f"{key} {value:9.2f}" for key, value in row.items()), flush=True)
    for key in ("tok_s", "ttft_p50_ms", "tpot_p50_ms"):
        middle = {who: statistics.median(row[key] for name, row in rows if name == who) for who in ("ours", "theirs")}
        ratio = middle["ours"] / middle["theirs"] if middle["theirs"] else float("nan")
        print(f"median {key:12} ours {middle['ours']:9.2f}  bench_serving {middle['theirs']:9.2f}  ratio {ratio:.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

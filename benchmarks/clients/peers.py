"""Other load tools in environments of their own: their command lines, and where they leave their figures.

They send no request index, so their percentiles are compared with the percentiles of the truth.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

Quantile = Callable[[list[float], float], float]


def tokenizer_of(folder: Path) -> Path:
    """Write a word-level tokenizer that every tool can load, once, and return its folder."""
    place = folder / "tokenizer"
    if not place.exists():
        place.mkdir()
        words = {f"w{number}": number for number in range(32000)}
        model = {"type": "WordLevel", "vocab": words, "unk_token": "w0"}
        (place / "tokenizer.json").write_text(
            json.dumps(
                {"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "WhitespaceSplit"}, "model": model}
            )
        )
        settings = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "w1", "eos_token": "w2"}
        (place / "tokenizer_config.json").write_text(json.dumps(settings))
        (place / "config.json").write_text(json.dumps({"model_type": "llama", "vocab_size": 32000}))
    return place


def command(name: str, options: argparse.Namespace, url: str, settings: dict[str, Any], folder: Path) -> list[str]:
    """Return the command line of one tool."""
    tokenizer = str(tokenizer_of(folder))
    total, level = settings["requests"] + settings["warmup"], settings["concurrency"]
    shutil.rmtree(folder / name, ignore_errors=True)
    (folder / name).mkdir()
    out = folder / name
    if name == "bench_serving":
        return [
            *(options.sglang_python or "python", "-m", "sglang.bench_serving", "--backend", "sglang-oai"),
            *("--base-url", url, "--model", tokenizer, "--tokenizer", tokenizer, "--dataset-name", "random-ids"),
            *(
                "--random-input-len",
                str(settings["input_tokens"]),
                "--random-output-len",
                str(settings["output_tokens"]),
            ),
            *("--random-range-ratio", "1.0", "--num-prompts", str(total), "--max-concurrency", str(level)),
            *("--warmup-requests", "0", "--tokenize-prompt", "--output-file", str(out / "out.jsonl"), "--disable-tqdm"),
        ]
    if name == "aiperf":
        return [
            *(options.aiperf or "aiperf", "profile", "--model", "m", "--url", url, "--endpoint-type", "completions"),
            *("--streaming", "--tokenizer", tokenizer, "--concurrency", str(level), "--request-count", str(total)),
            *("--synthetic-input-tokens-mean", str(settings["input_tokens"]), "--use-server-token-count"),
            *("--output-tokens-mean", str(settings["output_tokens"]), "--artifact-dir", str(out), "--ui", "none"),
        ]
    if name == "guidellm":
        data = f"prompt_tokens={settings['input_tokens']},output_tokens={settings['output_tokens']}"
        return [
            *(
                options.guidellm or "guidellm",
                "run",
                "--disable-console",
                "--tokenizer",
                f"kind=hf_auto,model={tokenizer}",
            ),
            *(
                "--backend",
                f"kind=openai_http,target={url},model=m,request_format=/v1/completions,validate_backend=false",
            ),
            *("--profile", f"kind=concurrent,streams={level}", "--constraint", f"kind=max_requests,count={total}"),
            *("--data", f"kind=synthetic_text,{data}", "--output", f"kind=json,path={out / 'out.json'}"),
        ]
    raise SystemExit(f"unknown client {name!r}: tpgate, aiohttp, httpx, bench_serving, aiperf, guidellm")


def answer(name: str, folder: Path) -> dict[str, Any] | None:
    """Return what a tool reported: TTFT and TPOT percentiles in ms, and tokens a second; None without a report."""
    out = folder / name
    if name == "bench_serving" and (out / "out.jsonl").exists():
        found = json.loads((out / "out.jsonl").read_text().splitlines()[-1])
        keys = ("median_ttft_ms", "p99_ttft_ms", "median_tpot_ms", "p99_tpot_ms", "output_throughput")
        return {
            **dict(zip(("ttft50", "ttft99", "tpot50", "tpot99", "rate"), (found[key] for key in keys), strict=True))
        }
    reports = sorted(out.rglob("profile_export_aiperf.json")) if name == "aiperf" else []
    if reports:
        found = json.loads(reports[-1].read_text())
        ttft, itl = found["time_to_first_token"], found["inter_token_latency"]
        return {
            **{"ttft50": ttft["p50"], "ttft99": ttft["p99"], "tpot50": itl["p50"], "tpot99": itl["p99"]},
            "rate": found["output_token_throughput"]["avg"],
        }
    reports = sorted(out.glob("*.json")) if name == "guidellm" else []
    if reports:
        metrics = json.loads(reports[-1].read_text())["benchmarks"][-1]["metrics"]
        ttft = metrics["time_to_first_token_ms"]["successful"]["percentiles"]
        itl = metrics["inter_token_latency_ms"]["successful"]["percentiles"]
        return {
            **{"ttft50": ttft["p50"], "ttft99": ttft["p99"], "tpot50": itl["p50"], "tpot99": itl["p99"]},
            "rate": metrics["output_tokens_per_second"]["successful"]["mean"],
        }
    return None


def errors(answer: dict[str, Any], ttft: list[float], tpot: list[float], quantile: Quantile) -> dict[str, Any]:
    """Return reported percentiles less the true ones (TTFT), and over them less 1 (TPOT)."""
    return {
        "tokens_per_second": answer["rate"],
        "ttft_error_p50_ms": answer["ttft50"] - quantile(ttft, 0.5),
        "ttft_error_p99_ms": answer["ttft99"] - quantile(ttft, 0.99),
        "tpot_error_p50": answer["tpot50"] / quantile(tpot, 0.5) - 1,
        "tpot_error_p99": answer["tpot99"] / quantile(tpot, 0.99) - 1,
    }

"""Sparse-MLA kernels on one H200: correctness, tile sweeps, roofline and FlashMLA side by side, in one unattended run.

    PYTHONPATH=src python3 benchmarks/h200/kernels.py OUT [--seconds 240]

Writes OUT/kernels.json after every case. A case that fails is recorded with its error and the run goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import torch
from record import Record, environment, table

from tpgate.kernels import mla, peers
from tpgate.kernels.ceilings import measure_peaks
from tpgate.kernels.copies import measure_copies
from tpgate.kernels.inputs import make_inputs, spoil_slot
from tpgate.kernels.mla import Tile
from tpgate.kernels.reference import check_error, mla_reference, relative_error, worst_row_error
from tpgate.kernels.roofline import Peaks, bound_of, datasheet_of
from tpgate.kernels.shapes import MlaShape, parse_shape
from tpgate.kernels.timing import clock_hz, rotations, time_calls

DEVICE = "cuda:0"
MAKERS = {"naive": mla.naive_call, "shared": mla.shared_call, "hopper": mla.hopper_call}
NAIVE = [Tile(1, 16, 1, 4, 2), Tile(1, 32, 1, 8, 2), Tile(1, 16, 1, 8, 3)]
HOPPER = Tile(64, 64, 1, 8, 2)


def tiles(*names: str) -> list[Tile]:
    """Return tiles from ``heads,tokens,warps,stages``."""
    numbers = [[int(part) for part in name.split(",")] for name in names]
    return [Tile(block_h, block_n, 1, warps, stages) for block_h, block_n, warps, stages in numbers]


WIDE = tiles("64,64,8,3", "64,64,8,2", "64,32,8,3", "64,32,8,5", "64,32,8,2")
ODD = tiles("128,32,8,2", "128,32,16,3", "32,64,8,3", "64,32,4,2", "128,16,16,3")
NARROW = tiles("16,32,4,3", "16,32,4,4", "16,64,4,2", "16,64,8,3", "16,32,4,2", "16,64,8,2", "16,32,2,3")
MIDDLE = tiles("32,32,4,3", "32,64,8,3", "32,32,8,3", "32,64,8,2", "16,32,4,3", "32,32,4,2")
HEADLINE = "b64-k2048-h128-bf16"
CELLS = [
    ("b64-k2048-h64-bf16", WIDE[:5]), ("b1-k2048-h128-bf16", WIDE[:4]), ("b8-k2048-h128-bf16", WIDE[:4]),
    ("b256-k2048-h128-bf16", WIDE[:4]), ("b64-k2048-h128-fp8", WIDE[:4]), ("b64-k512-h128-bf16", WIDE[:4]),
    ("b64-k1024-h128-bf16", WIDE[:4]), ("b64-k2048-h16-bf16", NARROW), ("b64-k2048-h32-bf16", MIDDLE),
    ("b64-k2048-h16-fp8", NARROW), ("b64-k2048-h32-fp8", MIDDLE), ("b1-k2048-h16-bf16", NARROW),
    ("b8-k2048-h16-bf16", NARROW), ("b256-k2048-h16-bf16", NARROW), ("b1-k512-h32-bf16", MIDDLE),
]  # fmt: skip


def check(record: Record, kernel: str, shape: MlaShape, tile: Tile) -> dict:
    """Compare one kernel with the float64 reference on fresh inputs, whole rows and ragged ones with holes."""
    entry: dict = {"kernel": kernel, "case": shape.name, "tile": tile.name}
    for name, options in (("whole", {}), ("ragged", {"ragged": True, "holes": 0.1})):
        inputs = make_inputs(shape, device=DEVICE, seed=int.from_bytes(os.urandom(3)), **options)
        if name == "ragged":
            spoil_slot(inputs, inputs.slots - 1)
        inputs.poison()
        MAKERS[kernel](inputs, tile)()
        torch.cuda.synchronize()
        want = mla_reference(inputs)
        entry[name] = relative_error(inputs.out, want)
        entry[f"{name}_worst_row"] = worst_row_error(inputs.out, want)
    entry["passed"] = all(entry[key] < 1e-2 for key in ("whole", "ragged", "whole_worst_row", "ragged_worst_row"))
    record.add("checks", entry)
    check_error(max(entry["whole"], entry["ragged"]), f"{kernel} {tile.name} {shape.name}")
    return entry


def input_sets(shape: MlaShape) -> list:
    return [make_inputs(shape, device=DEVICE, seed=seed) for seed in range(rotations(shape.gathered_bytes, DEVICE))]


def describe(shape: MlaShape, kernel: str, tile: Tile | None, timing, peaks: Peaks, moved: int | None) -> dict:
    bound = bound_of(shape, peaks)
    return {
        "case": shape.name, "kernel": kernel, "tile": tile.name if tile else None, "us": timing.median_s * 1e6,
        "spread": timing.spread, "samples": len(timing.samples_s), "sets": timing.calls,
        "roofline": bound.seconds / timing.median_s, "limit": bound.limit, "bound_us": bound.seconds * 1e6,
        "tflops": shape.flops / timing.median_s / 1e12, "gbps": shape.least_bytes / timing.median_s / 1e9,
        "reread": moved / shape.least_bytes if moved else None, "clock_mhz": (timing.clock_hz or 0) / 1e6 or None,
        "samples_us": [sample * 1e6 for sample in timing.samples_s],
    }  # fmt: skip


def measure(record: Record, sets: list, kernel: str, tile: Tile, peaks: Peaks, round_: str = "") -> dict:
    shape = sets[0].shape
    calls = [MAKERS[kernel](inputs, tile) for inputs in sets]
    timing = time_calls(calls, device=DEVICE, samples=11 if kernel == "naive" else 25)
    entry = describe(shape, kernel, tile, timing, peaks, mla.bytes_requested(shape, tile)) | {"round": round_}
    record.add("cases", entry)
    return entry


def small(shape: MlaShape) -> MlaShape:
    return MlaShape(3, min(shape.topk, 640), shape.heads, shape.cache)


def sweep(record: Record, name: str, tiles: list[Tile], peaks: Peaks, processors: int) -> dict | None:
    """Check, then time, every tile of the head-shared kernels on one shape; return the best."""
    shape = parse_shape(name)
    sets = input_sets(shape)
    found = []
    candidates = [("shared", tile) for tile in tiles]
    if shape.cache == "bf16" and shape.heads >= 64 and record.data["preflight"].get("hopper") == "passed":
        candidates.insert(0, ("hopper", HOPPER))
    for kernel, tile in candidates:
        full = mla.spread(shape, tile, processors)
        options = {full, mla.spread(shape, tile, 2 * processors)} | ({tile} if full.splits > 1 else set())
        for option in sorted(options, key=lambda one: one.splits):
            label = f"{kernel} {option.name} {name}"

            def work(kernel=kernel, option=option):
                check(record, kernel, small(shape), option)
                return measure(record, sets, kernel, option, peaks)

            entry = record.attempt(label, work)
            if entry:
                found.append(entry)
    return min(found, key=lambda one: one["us"]) if found else None


def flash_calls(shape: MlaShape, sets: list) -> dict:
    """Return FlashMLA's calls on the same inputs, each checked first."""
    found = {}
    calls = [peers.flash_mla_bf16(inputs) for inputs in sets]
    check_error(relative_error(calls[0](), mla_reference(sets[0])), "FlashMLA bf16")
    found["flashmla-prefill-bf16"] = calls
    return found


def flash_fp8(record: Record, shape: MlaShape, peaks: Peaks) -> None:
    sets = input_sets(shape)
    packed = [peers.pack_fp8(inputs) for inputs in sets]
    calls = [peers.flash_mla_fp8(inputs, pack[0]) for inputs, pack in zip(sets, packed, strict=True)]
    truth = make_inputs(shape, device=DEVICE, seed=0)
    truth.cache.view(-1, shape.width).copy_(packed[0][1].to(torch.bfloat16))
    error = relative_error(calls[0](), mla_reference(truth))
    timing = time_calls(calls, device=DEVICE)
    entry = describe(shape, "flashmla-decode-fp8", None, timing, peaks, None)
    record.add("cases", entry | {"error": error, "round": "side-by-side", "note": "656 B a token; figures as for bf16"})


def side_by_side(record: Record, best: dict | None, peaks: Peaks) -> None:
    """Time the best head-shared tile, the Hopper kernel, the naive one and FlashMLA in turn, three rounds."""
    shape = parse_shape(HEADLINE)
    sets = input_sets(shape)
    flash = None
    if record.data["preflight"].get("flash-bf16") == "passed":
        flash = record.attempt("FlashMLA bf16", lambda: (peers.load_flash_mla(), flash_calls(shape, sets))[1])
    shared = [row for row in record.data["cases"] if (row["case"], row["kernel"]) == (HEADLINE, "shared")]
    fastest = min(shared, key=lambda row: row["us"])["tile"] if shared else None
    tile = next((one for one in WIDE if one.name == fastest), WIDE[0])
    own = [("shared", tile), ("naive", NAIVE[0])]
    if record.data["preflight"].get("hopper") == "passed":
        own.insert(1, ("hopper", HOPPER))
    for round_ in ("1", "2", "3"):
        for kernel, one in own:
            record.attempt(
                f"{kernel} round {round_}", lambda k=kernel, t=one, r=round_: measure(record, sets, k, t, peaks, r)
            )
        for kernel, calls in (flash or {}).items():

            def work(kernel=kernel, calls=calls, r=round_):
                timing = time_calls(calls, device=DEVICE)
                record.add("cases", describe(shape, kernel, None, timing, peaks, None) | {"round": r})

            record.attempt(f"{kernel} round {round_}", work)


def counters(record: Record, folder: Path) -> None:
    """Read device-memory and L2 traffic of one launch each with Nsight Compute, where it is installed."""
    ncu = shutil.which("ncu")
    if ncu is None:
        raise FileNotFoundError("ncu is not on the path")
    metrics = "dram__bytes_read.sum,dram__bytes_write.sum,lts__t_bytes.sum,gpu__time_duration.sum"
    command = [ncu, "--clock-control", "none", "--metrics", metrics, "--csv", "--kernel-name", "regex:mla_",
               sys.executable, __file__, str(folder), "--one-launch"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    (folder / "ncu.csv").write_text(done.stdout)
    (folder / "ncu.err").write_text(done.stderr[-4000:])
    record.data["ncu"] = {"exit": done.returncode, "command": " ".join(command[:-3])}
    record.save()


def preflight(record: Record, folder: Path, name: str) -> None:
    """Run a kernel that was never seen on this machine in a process of its own: a fault there ends nothing here."""
    command = [sys.executable, __file__, str(folder / f"preflight-{name}"), "--preflight", name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        found = "passed" if done.returncode == 0 else (done.stderr or done.stdout)[-1500:]
    except subprocess.TimeoutExpired:
        found = "hung: ended after 60 s"
    record.data.setdefault("preflight", {})[name] = found
    record.save()
    print("preflight", name, found, flush=True)


def preflighted(folder: Path, name: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    record = Record(folder, 60)
    record.data["preflight"] = {}
    shape = parse_shape(HEADLINE)
    if name == "hopper":
        check(record, "hopper", small(shape), HOPPER)
        check(record, "hopper", small(shape), mla.spread(small(shape), HOPPER, 132))
    elif name == "flash-bf16":
        peers.load_flash_mla()
        flash_calls(shape, [make_inputs(shape, device=DEVICE, seed=1)])
    elif name == "flash-fp8":
        peers.load_flash_mla()
        flash_fp8(record, shape, measure_peaks(DEVICE))
    torch.cuda.synchronize()


def one_launch() -> None:
    inputs = make_inputs(parse_shape(HEADLINE), device=DEVICE, seed=1)
    for kernel, tile in (("naive", NAIVE[0]), ("shared", WIDE[0]), ("shared", WIDE[2]), ("hopper", HOPPER)):
        MAKERS[kernel](inputs, tile)()
        torch.cuda.synchronize()


def naive(record: Record, shape: MlaShape, tile: Tile, peaks: Peaks) -> None:
    check(record, "naive", small(shape), tile)
    measure(record, input_sets(shape), "naive", tile, peaks)


def copies(record: Record) -> None:
    record.data["copies"] = [{"path": rate.path, "gbps": rate.bytes_per_s / 1e9} for rate in measure_copies()]
    record.save()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=220.0)
    parser.add_argument("--one-launch", action="store_true")
    parser.add_argument("--preflight", choices=("hopper", "flash-bf16", "flash-fp8"))
    options = parser.parse_args()
    if options.one_launch:
        one_launch()
        return
    if options.preflight:
        preflighted(options.out, options.preflight)
        return
    options.out.mkdir(parents=True, exist_ok=True)
    record = Record(options.out, options.seconds)
    record.data["environment"] = environment(DEVICE)
    record.data["idle_clock_hz"] = clock_hz(DEVICE)
    for name in ("hopper", "flash-bf16", "flash-fp8"):
        preflight(record, options.out, name)
    peaks = measure_peaks(DEVICE)
    sheet = datasheet_of(torch.cuda.get_device_name(DEVICE))
    record.data["peaks"] = {"copy_bytes_per_s": peaks.bytes_per_s, "matmul_flops_per_s": peaks.flops_per_s,
                            "datasheet": [sheet.bytes_per_s, sheet.flops_per_s] if sheet else None}  # fmt: skip
    record.save()
    print(json.dumps(record.data["environment"]), json.dumps(record.data["peaks"]), flush=True)
    processors = torch.cuda.get_device_properties(DEVICE).multi_processor_count
    best = record.attempt(HEADLINE, lambda: sweep(record, HEADLINE, WIDE + ODD, peaks, processors))
    shape = parse_shape(HEADLINE)
    for tile in NAIVE:
        record.attempt(f"naive {tile.name}", lambda t=tile: naive(record, shape, t, peaks))
    record.attempt("side by side", lambda: side_by_side(record, best, peaks))
    if record.data["preflight"]["flash-fp8"] == "passed":
        record.attempt("FlashMLA fp8", lambda: (peers.load_flash_mla(), flash_fp8(record, shape, peaks)))
    record.attempt("counters", lambda: counters(record, options.out))
    for name, choices in CELLS:
        record.attempt(name, lambda n=name, t=choices: sweep(record, n, t, peaks, processors))
    record.attempt("copies", lambda: copies(record), always=True)
    record.data["seconds"] = record.seconds
    record.save()
    table(record.data)
    print("errors:", len(record.data["errors"]), "out of time:", record.data.get("out_of_time"), flush=True)


if __name__ == "__main__":
    main()

"""How fast, and in how much memory, a trace is read and broken down, beside other ways to do it.

    python benchmarks/trace_reader.py [FOLDER] [--sizes 200,1000] [--hta PYTHON] [--repeat 3]

FOLDER may hold real traces; the largest is measured. Traces of the asked sizes (MB of JSON) are written to a temporary
folder in kineto's layout, gzipped. Every method runs in a process of its own, imports not counted; the best of some
runs is printed with the most memory that any of them held. ``--hta`` names a Python that has HolisticTraceAnalysis; it
is run once.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
from pathlib import Path

READ = "from tpgate.trace.reader import read\nfrom pathlib import Path\ntrace = read(Path(PATH))\nevents = len(trace)\n"
METHODS = {
    "tpgate read": READ,
    "tpgate read + breakdown": READ + "from tpgate.trace.breakdown import break_down\nbreak_down(trace)\n",
    "tpgate read, stdlib gzip": "import zlib\nfrom tpgate.trace import stream\nstream._zlib = zlib\n" + READ,
    "orjson, whole file": (
        "import gzip, orjson\nrows = orjson.loads(gzip.open(PATH).read())['traceEvents']\n"
        "events = sum(row.get('cat') in ('kernel', 'gpu_memcpy', 'gpu_memset') for row in rows)\n"
    ),
    "json, whole file": (
        "import gzip, json\nrows = json.load(gzip.open(PATH))['traceEvents']\n"
        "events = sum(row.get('cat') in ('kernel', 'gpu_memcpy', 'gpu_memset') for row in rows)\n"
    ),
}
HTA = (
    "from hta.trace_analysis import TraceAnalysis\n"
    "found = TraceAnalysis(trace_files={0: PATH}, trace_dir='')\n"
    "found.get_gpu_kernel_breakdown(visualize=False)\nfound.get_idle_time_breakdown(visualize=False)\nevents = -1\n"
)
AROUND = (
    "import resource, time\n{imports}\nPATH = {path!r}\nbegan = time.perf_counter()\n{body}"
    "took = time.perf_counter() - began\n"
    "print('RESULT', took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, events)\n"
)
NAMES = (
    "nvjet_sm90_tst_256x64_64x5_4x1_v_bz_TNT",
    "_fwd_grouped_kernel_stage1",
    "void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*, __nv_bfloat16*, __nv_bfloat16*)",
    "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::"
    "{lambda()#3}::operator()() const::{lambda(int)#1}, std::array<char*, 2ul>, 4>(int, std::array<char*, 2ul>)",
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
)
KERNEL = """  {{
    "ph": "X", "cat": "kernel", "name": "{name}", "pid": 0, "tid": {stream},
    "ts": {ts:.3f}, "dur": {dur:.3f},
    "args": {{
      "External id": {n},      "queued": 0, "device": 0, "context": 1,      "stream": {stream}, "correlation": {n},      "registers per thread": 168,      "shared memory": 221184,      "blocks per SM": 0.969697,      "warps per SM": 11.636364,      "grid": [128, 1, 1],      "block": [384, 1, 1],      "est. achieved occupancy %": 0
    }}
  }},
"""  # noqa: E501 - as kineto writes it
HOST = """  {{
    "ph": "f", "id": {n}, "pid": 0, "tid": {stream}, "ts": {ts:.3f},
    "cat": "ac2g", "name": "ac2g", "bp": "e"
  }},
  {{
    "ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 515, "tid": 515,
    "ts": {host:.3f}, "dur": 31.250,
    "args": {{
      "External id": {n},"Record function id": 0, "Ev Idx": {n}
    }}
  }},
  {{
    "ph": "X", "cat": "python_function", "name": "sglang/srt/layers/linear.py(1234): forward", "pid": 515, "tid": 515,
    "ts": {host:.3f}, "dur": 63.250,
    "args": {{
      "Python parent id": {n}, "Python id": {n}, "Ev Idx": {n}
    }}
  }},
  {{
    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 515, "tid": 515,
    "ts": {host:.3f}, "dur": 4.125,
    "args": {{
      "External id": {n},      "cbid": 211, "correlation": {n}
    }}
  }},
"""


def write_trace(path: Path, megabytes: int) -> None:
    """Write a gzipped trace of so many MB of JSON: one kernel to four host events, as a profile without graphs has."""
    wanted = megabytes * 1_000_000
    with gzip.open(path, "wb", compresslevel=1) as file:
        head = {"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 1}}
        written = file.write(json.dumps(head)[:-1].encode() + b',\n"baseTimeNanoseconds": 0,\n"traceEvents": [\n')
        n = 0
        while written < wanted:
            rows = []
            for _ in range(2000):
                n += 1
                at = 5_239_856_310_888.514 + 21.731 * n
                fields = {"name": NAMES[n % len(NAMES)], "n": n, "stream": 7 if n % 5 else 23, "ts": at}
                rows.append(KERNEL.format(dur=3.251 + n % 17, **fields) + HOST.format(host=at - 80.0, **fields))
            written += file.write("".join(rows).encode())
        file.write(b'  {"name": "Record Window End", "ph": "i", "s": "g", "pid": "", "tid": "", "ts": 1.0}\n]}\n')


def uncompressed(path: Path) -> int:
    """Return the bytes of JSON in a file."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        return sum(len(piece) for piece in iter(lambda: file.read(1 << 22), b""))


def looks_like_a_trace(path: Path) -> bool:
    """Whether the first 4 MB hold an event with a category."""
    with gzip.open(path) as file:
        return b'"cat"' in file.read(1 << 22)


def measure(python: str, body: str, path: Path, repeat: int) -> tuple[float, float, int] | str:
    """Return the least seconds, the most MB of memory and the events that a method counted, or why there are none."""
    best, memory, events = float("inf"), 0.0, 0
    for _ in range(repeat):
        imports = "\n".join(line for line in body.splitlines() if line.startswith(("import ", "from ")))
        script = AROUND.format(path=str(path), imports=imports, body=body)
        done = subprocess.run([python, "-c", script], capture_output=True, text=True, check=False)
        line = next((text for text in done.stdout.splitlines() if text.startswith("RESULT ")), None)
        if line is None:
            return (done.stderr.strip().splitlines() or [f"ended with status {done.returncode}"])[-1][:80]
        _, took, held, count = line.split()
        best, memory, events = min(best, float(took)), max(memory, float(held)), int(count)
    return best, memory, events


def compare(path: Path, arguments: argparse.Namespace) -> None:
    """Print one line a method for one trace."""
    size = uncompressed(path) / 1e6
    print(f"\n{path.name}: {size:.1f} MB of JSON, {path.stat().st_size / 1e6:.1f} MB on disk")
    print(f"{'method':28}{'s':>9}{'MB/s':>9}{'memory MB':>11}{'events':>10}{'slower':>9}")
    reference = None
    rows = [(name, sys.executable, body, arguments.repeat) for name, body in METHODS.items()]
    if arguments.hta:
        rows.append(("HTA load + 2 breakdowns", arguments.hta, HTA, 1))
    for name, python, body, repeat in rows:
        if arguments.skip_above and size > arguments.skip_above and not name.startswith("tpgate"):
            print(f"{name:28}{'not run: above --skip-above':>40}")
            continue
        found = measure(python, body, path, repeat)
        if isinstance(found, str):
            print(f"{name:28}  failed: {found}")
            continue
        took, memory, events = found
        reference = took if name == "tpgate read + breakdown" else reference
        times = f"{took / reference:.1f}x" if reference else ""
        count = str(events) if events >= 0 else ""
        print(f"{name:28}{took:>9.2f}{size / took:>9.0f}{memory:>11.0f}{count:>10}{times:>9}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, help="folder with real traces")
    parser.add_argument("--sizes", default="200,1000", help="MB of JSON to write, by commas")
    parser.add_argument("--hta", metavar="PYTHON", help="a Python that has HolisticTraceAnalysis")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--skip-above", type=float, default=0, metavar="MB", help="run only tpgate above this size")
    parser.add_argument("--keep", type=Path, help="folder in which written traces are kept and looked for")
    arguments = parser.parse_args()
    if arguments.folder:
        real = [path for path in arguments.folder.rglob("*.json.gz") if looks_like_a_trace(path)]
        if real:
            compare(max(real, key=lambda path: path.stat().st_size), arguments)
    with tempfile.TemporaryDirectory() as temporary:
        for size in [int(word) for word in arguments.sizes.split(",") if word]:
            path = (arguments.keep or Path(temporary)) / f"written-{size}.json.gz"
            if not path.exists():
                write_trace(path, size)
            compare(path, arguments)


if __name__ == "__main__":
    main()

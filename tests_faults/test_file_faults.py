"""Full disks, read-only folders, cut-off files, two writers, links, odd paths and locales, a clock that is set back."""

from __future__ import annotations

import datetime
import errno
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import forge
import pytest
from fault_run import Run

from tpgate.baseline.reading import load_baseline, load_either, load_result, render, write_atomically
from tpgate.baseline.store import locked
from tpgate.errors import BaselineError, TraceError
from tpgate.stats.verdict import INFRASTRUCTURE_ERROR, USAGE_ERROR, Verdict
from tpgate.trace.reader import read

GOLDEN = Path(__file__).parent.parent / "tests" / "golden" / "h200-llama8b-graph-c64-TP-0.trace.json.gz"


@pytest.fixture
def mounted(tmp_path):
    """Mount a small file system of its own; skipped where that is not allowed."""
    mounts = []

    def mount(options):
        place = tmp_path / "mounted"
        place.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], check=False)
        if done.returncode:
            pytest.skip("no right to mount")
        mounts.append(place)
        return place

    yield mount
    for place in mounts:
        subprocess.run(["umount", str(place)], check=True)


def small_files():
    """Let no file grow beyond 12 kB: what a full disk does, without the right to mount one."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, 12_000))


def check_a_clean_end(project, run, words):
    status, text = run.finish()
    project.check_nothing_is_held()
    assert status == INFRASTRUCTURE_ERROR, text
    assert words in text
    assert "\nTraceback" not in text
    return text


@pytest.mark.parametrize("size", ["4k", "16k", "36k"])
def test_a_full_disk_ends_the_run_with_its_reason_and_keeps_what_was_written(project, mounted, size):
    place = mounted(f"size={size}")
    run = project.cli("--results", str(place))
    check_a_clean_end(project, run, os.strerror(errno.ENOSPC))
    for file in place.glob("*/result.json"):
        load_result(file)
    assert not [path for path in place.rglob(".*") if path.is_file()], "no half-written file stays"


def test_files_that_must_not_grow_end_the_run_in_the_same_way(project):
    run = project.cli(limits=small_files)
    check_a_clean_end(project, run, os.strerror(errno.EFBIG))
    for file in project.results.glob("*/result.json"):
        load_result(file)


def test_a_read_only_folder_is_refused_before_a_server_is_started(project, mounted):
    run = project.cli("--results", str(mounted("ro") / "results"))
    text = check_a_clean_end(project, run, os.strerror(errno.EROFS))
    assert "starting the server" not in text


def test_a_file_in_place_of_the_results_folder_is_named(project):
    project.results.write_text("")
    text = check_a_clean_end(project, project.cli(), os.strerror(errno.ENOTDIR))
    assert "results" in text


def test_a_write_that_fails_leaves_the_old_file_and_nothing_beside_it(tmp_path, monkeypatch):
    path = tmp_path / "result.json"
    path.write_text("old")

    def full(_descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, "new")
    assert [file.name for file in tmp_path.iterdir()] == ["result.json"]
    assert path.read_text() == "old"


@pytest.mark.parametrize("value", [forge.baseline(), forge.now(1.0, count=2)], ids=["baseline", "result"])
def test_a_cut_off_file_is_refused_wherever_it_is_cut(tmp_path, value):
    path = tmp_path / "cut.json"
    data = render(value).encode()
    for size in range(0, len(data) - 2, max(1, len(data) // 200)):
        path.write_bytes(data[:size])
        with pytest.raises(BaselineError, match=r"cut\.json"):
            load_either(path)


def test_a_cut_off_trace_is_refused_or_says_that_it_is_cut(tmp_path):
    path = tmp_path / "cut-TP-0.trace.json.gz"
    data = GOLDEN.read_bytes()
    for size in range(0, len(data) - 1, max(1, len(data) // 40)):
        path.write_bytes(data[:size])
        if size < 64:
            with pytest.raises(TraceError, match="cut-TP-0"):
                read(path)
        else:
            assert read(path).defects.cut_off, size


def test_the_command_line_names_a_cut_off_file_and_what_to_do(project):
    path = project.folder / "cut.json"
    path.write_bytes(render(forge.now(1.0)).encode()[:900])
    status, text = Run(project, [sys.executable, "-m", "tpgate", "compare", str(path), str(path)]).finish()
    assert status == USAGE_ERROR
    assert "cut.json" in text
    assert "next:" in text
    assert "Traceback" not in text


def test_two_refreshes_at_once_lose_no_launch(project):
    results = [forge.now(1.0, count=2, result_id="a"), forge.now(1.0, count=2, result_id="b")]
    text = [render(one) for one in results]
    text[1] = text[1].replace("launch-10", "launch-20")
    runs = []
    base = forge.baseline()
    target = project.folder / "baselines" / base.hardware / f"{base.scenario}.json"
    with locked(target):
        for number, content in enumerate(text):
            path = project.folder / f"{number}.json"
            path.write_text(content)
            argv = [sys.executable, "-m", "tpgate", "refresh", str(path), "--yes", "--baselines", "baselines"]
            runs.append(Run(project, argv))
        for run in runs:
            assert run.process.poll() is None, "it waits for the lock"
    for run in runs:
        status, said = run.finish()
        assert status == 0, said
    names = {launch.launch_id for launch in load_baseline(target, in_store=True).launches}
    assert names == {"launch-100", "launch-101", "launch-200", "launch-201"}


def test_links_are_followed_to_folders_and_a_linked_baseline_is_replaced(project):
    real = project.folder / "elsewhere"
    real.mkdir()
    project.results.symlink_to(real)
    status, text = project.cli("--no-profile", "--cell", "c1").finish()
    assert status == Verdict.NO_BASELINE.exit_code, text
    (folder,) = real.iterdir()
    assert load_result(folder).complete
    link = project.folder / "linked.json"
    (project.folder / "target.json").write_text("kept")
    link.symlink_to("target.json")
    write_atomically(link, "new")
    assert (project.folder / "target.json").read_text() == "kept"
    assert link.read_text() == "new"


def test_spaces_and_other_scripts_in_paths(tmp_path, project):
    place = project.folder / "ein Ordner mit Größe 測試 'q' $x"
    status, text = project.cli("--results", str(place)).finish()
    assert status == Verdict.NO_BASELINE.exit_code, text
    (folder,) = place.iterdir()
    run = load_result(folder).launches[0].runs["c2"]
    assert run.values["attention_share"].value is not None, "the traces were found there"
    status, text = Run(project, [sys.executable, "-m", "tpgate", "report", str(folder)]).finish()
    assert status == 0, text


@pytest.mark.parametrize(
    "variables",
    [
        {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"},
        {"PYTHONIOENCODING": "latin-1", "LANG": "de_DE.ISO-8859-1"},
        {"TZ": "Pacific/Kiritimati"},
        {"TZ": "America/St_Johns", "LC_ALL": "tr_TR.UTF-8"},
    ],
    ids=["ascii", "latin-1", "tomorrow", "half-hour"],
)
def test_locale_and_time_zone_change_nothing(project, variables):
    began = int(time.time())
    run = project.cli("--no-profile", "--cell", "c1", environment=variables)
    status, text = run.finish()
    assert status == Verdict.NO_BASELINE.exit_code, text
    assert "Traceback" not in text
    (result,) = project.check_results_are_readable()
    (launch,) = result.launches
    assert launch.started_at.endswith("+00:00")
    stamp = datetime.datetime.fromisoformat(launch.started_at).timestamp()
    assert began - 2 <= stamp <= time.time()


def test_a_clock_that_is_set_back_by_an_hour_moves_no_number(project):
    script = project.folder / "set_back.py"
    script.write_text(
        "import sys, time\n"
        "real, real_ns, began = time.time, time.time_ns, time.monotonic()\n"
        "def back(): return 3600.0 if time.monotonic() - began > 1.5 else 0.0\n"
        "time.time = lambda: real() - back()\n"
        "time.time_ns = lambda: real_ns() - int(back() * 1e9)\n"
        "from tpgate.cli import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    status, text = Run(project, [sys.executable, str(script), "run", "quick", "--max-launches", "1"]).finish()
    assert status == Verdict.NO_BASELINE.exit_code, text
    (result,) = project.check_results_are_readable()
    for run in result.launches[0].runs.values():
        assert not [doubt for doubt in run.doubts if doubt.fatal]
        for name, value in run.values.items():
            assert value.value is None or value.value >= 0, name
    throughput = result.launches[0].runs["c2"].values["output_tokens_per_second"].value
    assert 200 < throughput < 600, "two requests at 4.2 ms a step"

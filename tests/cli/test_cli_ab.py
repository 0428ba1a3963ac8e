"""The words of a side, and the exit codes that a bisection reads."""

from __future__ import annotations

import pytest

from tpgate import cli
from tpgate.cli import ab
from tpgate.errors import ConfigError, ServerError
from tpgate.measure.session import Settings
from tpgate.selftest.scenario import CPU, STANDIN
from tpgate.stats.verdict import Verdict

PLAIN = Settings(python="/usr/bin/python3")


def test_words_of_a_side():
    made = ab.side(PLAIN, ["disable_cuda_graph=true", "chunked_prefill_size=4096", "env:NCCL_ALGO=Ring", "env:A=b=c"])
    assert made.extra == (("chunked_prefill_size", 4096), ("disable_cuda_graph", True))
    assert made.extra_environment == (("A", "b=c"), ("NCCL_ALGO", "Ring"))
    assert made.python == PLAIN.python


def test_a_fault_is_put_into_one_side():
    words = ["fault:scheduler-sleeps"]
    assert ab.side(PLAIN, words, None, STANDIN.server).extra == (("fault_scheduler_sleep_ms", 2.0),)
    real = dict(ab.side(PLAIN, words, None, CPU.server).extra_environment)
    assert real["TPGATE_FAULTS"] == '{"scheduler_sleep_ms": 40.0}'
    with pytest.raises(ConfigError, match="not possible on this server"):
        ab.side(PLAIN, ["fault:moe-slower"], None, CPU.server)
    with pytest.raises(ConfigError, match="unknown fault"):
        ab.side(PLAIN, ["fault:nonsense"], None, CPU.server)


def test_interpreters_by_path_and_by_version(tmp_path):
    python = tmp_path / "0.5.20" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    assert ab.side(PLAIN, [f"python:{python}"]).python == str(python)
    assert ab.side(PLAIN, ["sglang:0.5.20"], tmp_path).python == str(python)
    with pytest.raises(ConfigError, match=r"0\.5\.23/bin/python does not exist(.|\n)*pip install sglang==0\.5\.23"):
        ab.side(PLAIN, ["sglang:0.5.23"], tmp_path)
    with pytest.raises(ConfigError, match="--environments"):
        ab.side(PLAIN, ["sglang:0.5.20"])


def test_urls_stand_alone():
    assert ab.side(PLAIN, ["http://127.0.0.1:30000"]).attach_url == "http://127.0.0.1:30000"
    with pytest.raises(ConfigError, match="no further words"):
        ab.side(PLAIN, ["http://127.0.0.1:30000", "a=1"])


@pytest.mark.parametrize("word", ["", "nonsense", "env:NAME", "=1", "a b=1", "python:/no/such/file"])
def test_other_words_are_errors(word):
    with pytest.raises(ConfigError):
        ab.side(PLAIN, [word])


@pytest.mark.parametrize(
    ("verdict", "code"),
    [
        (Verdict.OK, 0),
        (Verdict.IMPROVED, 0),
        (Verdict.REGRESSED, 1),
        (Verdict.VOID, 125),
        (Verdict.INCONCLUSIVE, 125),
        (Verdict.NO_BASELINE, 125),
    ],
)
def test_exit_codes_of_verdicts(verdict, code):
    assert ab.exit_code(verdict) == code


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["selftest"], "are the same"),
        (["selftest", "--head", "nonsense"], "is not understood"),
        (["selftest", "--head", "a=1", "--rounds", "0"], "--rounds 0"),
        (["selftest", "--head", "a=1", "--cell", "c99"], "no cell 'c99'"),
        (["selftest", "--haed", "a=1"], "--haed"),
        ([], "SCENARIO"),
    ],
)
def test_wrong_options_end_a_bisection(argv, said, capsys):
    try:
        code = cli.main(["ab", *argv])
    except SystemExit as stop:
        code = stop.code
    assert code == ab.ABORT
    assert said in capsys.readouterr().err


def test_a_server_that_breaks_passes_the_commit_over(monkeypatch, capsys):
    def broken(_duel):
        raise ServerError("the server did not start")

    monkeypatch.setattr(ab, "fight", broken)
    assert cli.main(["ab", "selftest", "--head", "a=1"]) == ab.SKIP
    assert "did not start" in capsys.readouterr().err

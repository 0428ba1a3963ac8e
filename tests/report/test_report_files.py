from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from report_results import result_of, run_of

from tpgate.report.files import links
from tpgate.report.folder import Stored


def linked(folder: Path, **artifacts: str) -> dict[str, str]:
    run = run_of("no_graphs", "c64", artifacts=artifacts)
    launch = msgspec.structs.replace(result_of().launches[0], launch_id="1", runs={"c64": run})
    return {
        what.removeprefix("1 "): link for what, _, link in links(Stored(folder, result_of(launches=(launch,)), None))
    }


def test_traces_and_the_log_are_found_and_a_path_in_the_launch_folder_is_led_to(tmp_path):
    launch = tmp_path / "launch-1"
    (launch / "profile c64").mkdir(parents=True)
    for name in (
        "c64.requests.json.gz",
        "server.log",
        "profile c64/1-TP-0.trace.json.gz",
        "profile c64/1-TP-1.trace.json.gz",
    ):
        (launch / name).write_text("")
    assert linked(tmp_path, requests="c64.requests.json.gz") == {
        "c64 requests": "./launch-1/c64.requests.json.gz",
        "trace": "./launch-1/profile%20c64/1-TP-1.trace.json.gz",
        "server log": "./launch-1/server.log",
    }


@pytest.mark.parametrize("path", ["/etc/passwd", "../../secret", "a/../../b", "//host/x"])
def test_a_path_out_of_the_folder_is_no_link(tmp_path, path):
    assert linked(tmp_path, x=path)["c64 x"] == ""


def test_a_path_that_looks_like_an_address_stays_a_file_name(tmp_path):
    assert linked(tmp_path, x="javascript:alert(1)")["c64 x"] == "./javascript%3Aalert%281%29"

from __future__ import annotations

import pytest

from tpgate.measure.same import change_doubts

BEFORE = {
    "version": "0.5.20",
    "attention_backend": "triton",
    "port": 1,
    "internal_states": [{"last_gen_throughput": 1.0}],
}


def test_the_same_server_raises_no_doubt():
    assert change_doubts(BEFORE, BEFORE | {"port": 2, "internal_states": [{"last_gen_throughput": 9.0}]}) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": "0.5.23"}, "version 0.5.20 -> 0.5.23"),
        ({"attention_backend": "fa3"}, "server.attention_backend triton -> fa3"),
        ({"disable_cuda_graph": True}, "server.disable_cuda_graph None -> True"),
    ],
)
def test_another_version_or_argument_is_fatal(change, said):
    (doubt,) = change_doubts(BEFORE, BEFORE | change)
    assert (doubt.check, doubt.fatal) == ("server_changed", True)
    assert said in doubt.reason

"""The store finds by identity, names what differs, and never takes a broken file for an absent one."""

from __future__ import annotations

import threading

import msgspec
import pytest
from forge import KEYS, QUIET, THROUGHPUT, baseline

from tpgate.baseline.key import hardware_of, slug
from tpgate.baseline.reading import render
from tpgate.baseline.store import BaselineStore, Found, NotFound
from tpgate.errors import BaselineError
from tpgate.measure.result import Identity

SCENARIO = "llama-8b-tp1"


@pytest.fixture
def store(tmp_path) -> BaselineStore:
    return BaselineStore((tmp_path / "baselines", tmp_path / "local"))


def _identity(**keys) -> Identity:
    return Identity(keys=KEYS | keys)


def test_what_was_written_is_found_and_known_to_be_checked_in(store):
    path = store.write(baseline())
    assert path == store.folders[0] / "nvidia-h200-x1" / f"{SCENARIO}.json"
    found = store.find_for(SCENARIO, _identity())
    assert isinstance(found, Found)
    assert (found.baseline, found.path, found.checked_in) == (baseline(), path, True)


def test_a_local_baseline_is_found_where_the_checked_in_one_has_another_identity(store):
    store.write(baseline())
    other = msgspec.structs.replace(baseline(), identity=_identity(engine_version="0.5.20"))
    store.write(other, store.folders[1])
    found = store.find_for(SCENARIO, _identity(engine_version="0.5.20"))
    assert isinstance(found, Found)
    assert not found.checked_in


def test_another_identity_is_no_baseline_and_the_differing_fields_are_named(store):
    path = store.write(baseline())
    found = store.find_for(SCENARIO, _identity(gpu_count=4, engine_version="0.5.20"))
    assert isinstance(found, NotFound)
    assert found.path == path
    assert found.differences == (("engine_version", "0.5.15", "0.5.20"), ("gpu_count", 1, 4))
    assert "gpu_count: 1 in the baseline, 4 now" in found.reason


def test_no_file_says_where_it_was_looked_for(store):
    found = store.find_for(SCENARIO, _identity())
    assert isinstance(found, NotFound)
    assert str(store.path("nvidia-h200-x1", SCENARIO)) in found.reason
    assert not found.differences


@pytest.mark.parametrize("content", ["", "{}", '{"schema_version": 7}', "not json"])
def test_a_broken_file_raises_and_is_never_taken_for_no_regression(store, content):
    path = store.path("nvidia-h200-x1", SCENARIO)
    path.parent.mkdir(parents=True)
    path.write_text(content)
    with pytest.raises(BaselineError):
        store.find_for(SCENARIO, _identity())


def test_a_mistyped_folder_of_baselines_is_an_error(tmp_path):
    with pytest.raises(BaselineError, match="no such folder"):
        BaselineStore.at(tmp_path / "baselinse")
    assert BaselineStore.at(tmp_path).folders[0] == tmp_path


def test_an_unsound_baseline_is_not_written(store):
    broken = msgspec.structs.replace(baseline(), promises=())
    with pytest.raises(BaselineError, match="promises is empty"):
        store.write(broken)
    assert not store.folders[0].exists()


def test_two_writers_leave_one_whole_file(store):
    makers = [baseline(THROUGHPUT, {"c1": [v + i for v in QUIET], "c4": QUIET}) for i in range(8)]
    threads = [threading.Thread(target=store.write, args=(one,)) for one in makers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.path("nvidia-h200-x1", SCENARIO).read_text() in {render(one) for one in makers}


@pytest.mark.parametrize("name", [None, "", "../x", "A B", 3])
def test_hardware_must_be_a_safe_folder_name(name):
    with pytest.raises(BaselineError, match="hardware"):
        hardware_of(Identity(keys={"hardware": name}))


def test_a_slug_keeps_what_names_the_hardware():
    assert slug("NVIDIA H200", "x1") == "nvidia-h200-x1"
    assert slug("cpu", "Intel(R) Xeon(R) Platinum 8480+") == "cpu-intel-xeon-platinum-8480"


def test_the_key_is_what_the_identity_says_and_no_python_version(store):
    store.write(baseline())
    noted = Identity(keys=KEYS, notes={"python": "3.12", "host": "b"})
    assert isinstance(store.find_for(SCENARIO, noted), Found)

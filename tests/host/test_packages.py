from __future__ import annotations

import os
import sys

from tpgate.host.packages import Packages, read


def test_versions_come_from_the_named_interpreter_and_its_path(tmp_path):
    info = tmp_path / "SGL_Kernel-9.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: SGL_Kernel\nVersion: 9.9\n")
    found = read(sys.executable, {**os.environ, "PYTHONPATH": str(tmp_path)})
    assert found.reason is None
    assert found.versions["sgl-kernel"] == "9.9"
    assert found.python == ".".join(map(str, sys.version_info[:3]))
    assert "pytest" in found.versions


def test_an_interpreter_that_is_not_there_is_a_reason(tmp_path):
    found = read(str(tmp_path / "python"))
    assert found.versions == {}
    assert "could not be asked" in found.reason
    assert read("/bin/false").reason == "/bin/false ended with 1: it said nothing"
    assert "not started here" in read(None).reason


def test_the_digest_covers_everything_installed():
    assert Packages({"a": "1"}).digest() != Packages({"a": "1", "b": "1"}).digest()
    assert Packages().digest() is None

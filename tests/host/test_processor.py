from __future__ import annotations

import pytest

from tpgate.host.processor import cores, model, slug


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("model name\t: Intel(R) Xeon(R) Gold 6430 CPU @ 2.10GHz", "Intel Xeon Gold 6430"),
        ("model name\t: AMD EPYC 9654 96-Core Processor", "AMD EPYC 9654 96-Core Processor"),
        ("CPU implementer\t: 0x41\nCPU part\t: 0xd4f", "arm 0x41 0xd4f"),
    ],
)
def test_models_are_read_without_trade_marks(tmp_path, line, name):
    path = tmp_path / "cpuinfo"
    path.write_text(f"processor\t: 0\n{line}\n\n")
    assert model(path) == name


def test_an_unreadable_file_gives_the_architecture(tmp_path):
    assert model(tmp_path / "absent")
    assert slug("Intel Xeon Gold 6430") == "intel-xeon-gold-6430"
    assert slug("@@") == "unknown"
    assert cores() >= 1

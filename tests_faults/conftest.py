import sys
from pathlib import Path

import pytest
from fault_run import Project, Run

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project of its own; whatever one of its runs left behind is ended afterwards, and only that."""
    made = Project(tmp_path / "project")
    started = []
    begin = Run.__post_init__

    def remember(run):
        begin(run)
        started.append(run)

    monkeypatch.setattr(Run, "__post_init__", remember)
    yield made
    for run in started:
        run.close()

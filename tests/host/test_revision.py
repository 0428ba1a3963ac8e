import subprocess

from tpgate.host.revision import revision


def test_a_variable_names_the_commit_before_git_does(tmp_path):
    assert revision(tmp_path, {"GITHUB_SHA": "abc", "TPGATE_COMMIT": "def"}) == "def"
    assert revision(tmp_path, {"GITHUB_SHA": "abc"}) == "abc"


def test_git_is_asked_where_no_variable_says_it(tmp_path):
    run = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run([*run, "init", "-q"], check=True)
    subprocess.run([*run, "commit", "-q", "--allow-empty", "-m", "one"], check=True)
    head = subprocess.run([*run, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    assert revision(tmp_path, {}) == head


def test_a_folder_outside_a_checkout_has_none(tmp_path):
    assert revision(tmp_path, {}) is None

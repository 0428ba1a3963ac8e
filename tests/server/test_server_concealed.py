"""A server's log loses the secrets that it was started with, and keeps the rest as it was."""

from __future__ import annotations

from tpgate.redaction import secret_values
from tpgate.server import concealed, engine
from tpgate.server.concealed import conceal_file

ARGV = ("python", "-m", "server", "--api-key", "s3cret-of-argv", "--admin-api-key=other-s3cret", "--port", "30000")
VARIABLES = {"HF_TOKEN": "s3cret-of-env", "MAX_TOTAL_TOKENS": "20000000", "MY_PASSWORD": "abc"}
VALUES = ("s3cret-of-argv", "s3cret-of-env", "other-s3cret")


def test_secret_values_are_those_of_secret_names_and_no_short_ones():
    assert set(secret_values(ARGV, VARIABLES)) == set(VALUES)


def test_a_log_loses_its_secrets_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setattr(concealed, "_LINES", 64)
    path = tmp_path / "server.log"
    lines = [
        b"ServerArgs(api_key='s3cret-of-argv', port=30000)\n",
        b"proxy http://user:pw@host/ and hf_0123456789abcdef\n",
        b"Decode batch. #token: 128, token usage: 0.25\r\n",
        b"\xff\xfe not UTF-8\n",
    ] * 9
    path.write_bytes(b"".join(lines))
    conceal_file(path, VALUES)
    clean = [
        b"ServerArgs(api_key='***', port=30000)\n",
        b"proxy http://***@host/ and ***\n",
        *lines[2:4],
    ] * 9
    assert path.read_bytes() == b"".join(clean)
    assert [file.name for file in tmp_path.iterdir()] == ["server.log"]


def test_a_log_without_secrets_is_left_alone(tmp_path):
    path = tmp_path / "server.log"
    path.write_text("nothing\n")
    before = path.stat()
    conceal_file(path, VALUES)
    assert path.stat().st_ino == before.st_ino
    conceal_file(tmp_path / "no-such.log", VALUES)


def test_a_log_that_cannot_be_rewritten_is_not_kept_with_a_secret(tmp_path):
    path = tmp_path / "server.log"
    path.write_text("s3cret-of-env\n")
    (tmp_path / ".server.log.part").symlink_to(tmp_path / "no" / "such" / "folder")
    conceal_file(path, VALUES)
    assert not path.exists()


def test_the_command_that_is_shown_holds_no_secret():
    variables = (("HF_TOKEN", "s3cret-of-env"), ("PROXY", "http://user:s3cret-pw@host"), ("NCCL_DEBUG", "INFO"))
    shown = engine.Command(ARGV, variables, 30000, None).shell()
    assert "s3cret" not in shown
    assert "NCCL_DEBUG=INFO" in shown
    assert "--port 30000" in shown

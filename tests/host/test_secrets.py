from __future__ import annotations

import json

import pytest

from tpgate.host.secrets import HIDDEN, is_secret, redact

PLANTED = "s3cr3tvalue1234567890"


@pytest.mark.parametrize(
    "name",
    ["api_key", "admin_api_key", "--api-key", "HF_TOKEN", "hf_token", "OPENAI_API_KEY", "ssl_keyfile_password",
     "AWS_SECRET_ACCESS_KEY", "Authorization", "db_password", "X-Api-Key", "token", "GITHUB_PAT"],
)  # fmt: skip
def test_names_of_secrets_are_known(name):
    assert is_secret(name)


@pytest.mark.parametrize(
    "name",
    ["max_total_tokens", "tokenizer_path", "speculative_token_map", "num_draft_tokens", "skip_tokenizer_init",
     "token_capacity", "enable_metrics", "monkey", "keep_alive", "author", "path"],
)  # fmt: skip
def test_names_that_only_look_like_secrets_are_kept(name):
    assert not is_secret(name)


@pytest.mark.parametrize(
    "value",
    [
        {"api_key": PLANTED},
        {"deep": [{"er": {"admin_api_key": PLANTED}}]},
        ["python", "-m", "server", "--api-key", PLANTED, "--port", "1"],
        ("--api-key=" + PLANTED,),
        f"python -m server --api-key {PLANTED} --port 1",
        f"https://user:{PLANTED}@host/path",
        f"http://host/generate?a=1&api_key={PLANTED}&b=2",
        f"Authorization: Bearer {PLANTED}",
        f"authorization: Basic {PLANTED}",
        f"curl -H 'bearer {PLANTED}'",
        f"HF_TOKEN={PLANTED}",
        f"OPENAI_API_KEY='{PLANTED}'",
        {"url": f"redis://:{PLANTED}@cache:6379"},
    ],
)
def test_planted_secrets_are_gone_at_any_depth(value):
    text = json.dumps(redact(value))
    assert PLANTED not in text
    assert HIDDEN in text


@pytest.mark.parametrize(
    "token",
    ["hf_abcdefghijklmnop", "sk-abcdefghijklmnopqrst", "ghp_abcdefghijklmnopqrstuv", "nvapi-abcdefghijklmno",
     "glpat-abcdefghijklmn", "AKIAABCDEFGHIJKLMNOP", "eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.abcdefgh"],
)  # fmt: skip
def test_shapes_of_known_tokens_are_gone_wherever_they_stand(token):
    assert token not in redact(f"lora from {token} at /x")


@pytest.mark.parametrize(
    "value",
    ["triton", 5, None, True, 0.5, "attention_backend=triton", ["--port", "30000"], {"max_total_tokens": 5},
     "http://127.0.0.1:30000/generate", "a b c", "basic scheduler", {"api_key": None}],
)  # fmt: skip
def test_everything_else_is_unchanged(value):
    assert redact(value) == value


def test_a_flag_after_a_secret_flag_is_no_secret():
    assert redact(["--api-key", "--port", "1"]) == ["--api-key", "--port", "1"]

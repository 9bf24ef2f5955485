"""What may be secret is neither stored nor shown; what is not stays as it was typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from laptime.kit import redaction, typed
from laptime.kit.errors import UsageError
from laptime.kit.extras import install


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("-H|Authorization: Bearer abc", "-H|Authorization: ..."),
        ("-HX-Api-Key:abc", "-HX-Api-Key: ..."),
        ("--header=Cookie: a=b", "--header=Cookie: ..."),
        ("--header|Bearer abc", "--header|..."),
        ("--header|@secrets.txt", "--header|@secrets.txt"),
        ("http://u:p@h:1/v1?a=b&c=d", "http://h:1/v1?a=...&c=..."),
        ("--to=https://u:p@h/x", "--to=https://h/x"),
        ("vllm|serve|--api-key|abc|--port|1", "vllm|serve|--api-key|...|--port|1"),
        ("--hf-token=abc", "--hf-token=..."),
        ("OPENAI_API_KEY=abc", "OPENAI_API_KEY=..."),
        ("--wandb_key=abc|--subscription-key|abc", "--wandb_key=...|--subscription-key|..."),
        ("h:80/v1?a=1&token=abc", "h:80/v1?a=...&token=..."),
        ("me:abc@h:80/v1", "h:80/v1"),
        (
            "http://abc@h/v1;sid=abc?X-Amz-Date=abc#abc",
            "http://h/v1;sid=...",
        ),
        ("--server|vllm serve m --api-key abc --port 1", "--server|vllm serve m --api-key ... --port 1"),
        ("--server|curl http://u:abc@h/x -H Y", "--server|curl http://h/x -H ..."),
        ("--slo|latency=50ms@p99,ttft=1s", "--slo|latency=50ms@p99,ttft=1s"),
        ("--max-tokens|64|--tokenizer|t.json", "--max-tokens|64|--tokenizer|t.json"),
        ("--option|max_tokens=3", "--option|max_tokens=3"),
        ("model.py:build|--batch|1,8|--name|key", "model.py:build|--batch|1,8|--name|key"),
        ("token:build|auth.py:key", "token:build|auth.py:key"),
        ('--body|{"m":1,"api_key":"abc","n":5}', '--body|{"m":1,"api_key":"...","n":5}'),
        ('--body|{"h": {"X-Key": "a b", "n": 5}}', '--body|{"h": {"X-Key": "...", "n": 5}}'),
        ("--option|headers={'accessToken': 'abc'}", "--option|headers={'accessToken': '...'}"),
        (r'"{\"password\": \"a,c\"}"', r'"{\"password\": \"...\"}"'),
        ("--name|hf_q8Zt4Lw0Xb2Vn6Ms1Rc5", "--name|..."),
        ("--name|hf_bert_large_uncased_whole_word", "--name|hf_bert_large_uncased_whole_word"),
        ("http://h/bot110201:AAHdqTc-vCH1vGWJxfSeofSAs0K5P/v1", "http://h/bot110201:.../v1"),
        ("http://h/services/T0/B0/q8Zt4Lw0Xb2Vn6Ms1Rc5", "http://h/services/T0/B0/..."),
        ("http://h/access_token/abc/v1", "http://h/access_token/.../v1"),
        (
            "http://h/models/Meta-Llama-3.1-8B-Instruct-fp8:stream",
            "http://h/models/Meta-Llama-3.1-8B-Instruct-fp8:stream",
        ),
        ("http://q8Zt4Lw0Xb2Vn6Ms1Rc5.endpoints.cloud/v1", "http://q8Zt4Lw0Xb2Vn6Ms1Rc5.endpoints.cloud/v1"),
    ],
)
def test_a_command_line_is_kept_without_secrets(line: str, kept: str) -> None:
    assert redaction.line(line.split("|")) == kept.split("|")


def test_a_text_loses_secrets_of_the_line_and_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_PASSWORD", "correct horse")
    monkeypatch.setenv("HOME_TOWN", "Oslo")
    text = "abcd in X: abcd, correct horse, Oslo, Basic dXNlcg==, http://u:p@h/x?y=z"
    expected = "... in X: ..., ..., Oslo, Basic ..., http://h/x?y=..."
    assert redaction.text(text, ["-HX:abcd"]) == expected


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("KeyError: {'Authorization': 'Bearer abc', 'n': 1}", "KeyError: {'Authorization': '...', 'n': 1}"),
        ("post(api_key='abc', n=1), HF_TOKEN=abc", "post(api_key='...', n=1), HF_TOKEN=..."),
        ("Authorization: Token abc", "Authorization: ..."),
        ("  rows = sorted(rows, key=len)", "  rows = sorted(rows, key=len)"),
        ("unexpected token at 3 in http://h/q8Zt4Lw0Xb2Vn6Ms1Rc5", "unexpected token at 3 in http://h/..."),
    ],
)
def test_a_message_loses_what_it_says_to_be_secret(text: str, kept: str) -> None:
    assert redaction.text(text) == kept


def test_headers_may_stand_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "headers.txt"
    path.write_text("\ufeff# of the test server\nAuthorization: Bearer abc\n\nX-A: b:c\n")
    assert typed.headers([f"@{path}", "Y: z"]) == [
        ("Authorization", "Bearer abc"),
        ("X-A", "b:c"),
        ("Y", "z"),
    ]
    with pytest.raises(UsageError, match="nowhere cannot"):
        typed.headers(["@nowhere"])
    path.write_text("Bearer abc")
    with pytest.raises(UsageError) as caught:
        typed.headers([f"@{path}"])
    assert "abc" not in str(caught.value)


def test_extras_are_installed_by_the_names_of_their_packages() -> None:
    assert install("torch") == "pip install 'torch>=2.4' 'torchvision>=0.19' 'timm>=1.0'"
    assert install("nncf", "onnx").startswith("pip install 'onnxruntime>=1.20' 'onnx>=1.17'")
    assert "laptime" not in install("nncf")
    assert install("nonesuch") == "pip install nonesuch"

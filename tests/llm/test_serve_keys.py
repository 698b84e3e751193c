"""Keys of the server: each is a tenant, who finds nothing of what others have asked."""

from __future__ import annotations

import pytest

from smelt.errors import ArgumentError
from smelt.llm.serve import gathered
from smelt.llm.serve.keys import Tenants
from tests.llm.test_serve import CHAT, TEXT, served

KEYS = {"alice": "first", "bob": "second"}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "prompt"),
    [(TEXT, {"prompt": "the same words"}), (CHAT, {"messages": [{"role": "user", "content": "the same words"}]})],
)
def test_tenants_do_not_see_what_others_have_asked(path, prompt, stream):
    asked = prompt | {"max_tokens": 4, "seed": 1}
    if stream:
        asked |= {"stream": True, "stream_options": {"include_usage": True}}

    with served(KEYS) as client:

        def ask(name: str) -> tuple[str, bool]:
            reply = client.ask(path, asked, {"authorization": f"Bearer {KEYS[name]}"})
            parts = reply.events if stream else [reply.json]
            kind = "text" if path == TEXT else "delta" if stream else "message"
            said = [choice[kind] for part in parts for choice in part["choices"]]
            text = "".join(part if isinstance(part, str) else part.get("content", "") for part in said)
            usage = parts[-1]["usage"]
            cached = usage["prompt_tokens_details"]["cached_tokens"]
            assert cached in (0, usage["prompt_tokens"] - 1)
            return text, cached > 0

        text, found = ask("alice")
        assert not found
        assert ask("alice") == (text, True)
        assert ask("bob") == (text, False)
        assert ask("alice") == (text, True)
        assert ask("bob") == (text, True)


def test_without_keys_all_are_one_tenant():
    with served() as client:
        asked = {"prompt": "the same words", "max_tokens": 4}
        cached = [client.ask(TEXT, asked).json["usage"]["prompt_tokens_details"]["cached_tokens"] for _ in range(2)]
        assert cached == [0, 13]


def test_a_key_has_a_name_and_nothing_else_has():
    tenants = Tenants(KEYS)
    assert [tenants.name(key) for key in (b"first", b"second")] == ["alice", "bob"]
    assert [tenants.name(key) for key in (b"", b"firs", b"first ", b"First", b"alice", b"\xff")] == [None] * 6
    assert "first" not in str(vars(tenants))
    assert not Tenants({})


def test_keys_of_words_a_variable_and_a_file_come_together(tmp_path):
    path = tmp_path / "keys"
    path.write_text("# those who may ask\n\nalice  a-key\nbob\tb=key\n")
    found = gathered(["x", "y"], str(path), {"SMELT_API_KEY": "z"})
    assert list(found.values()) == ["x", "y", "z", "a-key", "b=key"]
    assert {"alice", "bob"} < set(found)
    assert gathered([], None, {}) == gathered([], None, {"SMELT_API_KEY": ""}) == {}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "has no keys"),
        (b"# alice SECRET\n", "has no keys"),
        (b"alice SECRET\nSECRET\n", "line 2 .* has 1 words"),
        (b"alice SECRET # hers\n", "line 1 .* has 4 words"),
        (b"alice SECRET\nalice SECRET2\n", "alice has two keys"),
        (b"alice SECRET\nbob SECRET\n", "alice and bob have the same key"),
        (b"alice SECRET\nbob given\n", "--api-key 1 and bob have the same key"),
        (b"alice SECRET\0\n", "alice cannot be sent"),
        (b"alice SECRET\xff\n", "not UTF-8"),
        (b"alice SECRET\n" + b"#" * (1 << 20), "too large"),
    ],
)
def test_files_that_are_no_keys_are_refused_and_not_shown(tmp_path, data, words):
    path = tmp_path / "keys"
    path.write_bytes(data)
    with pytest.raises(ArgumentError, match=words) as told:
        gathered(["given"], str(path), {})
    assert "SECRET" not in str(told.value)
    with pytest.raises(ArgumentError, match="cannot be read"):
        gathered([], str(tmp_path / "none"), {})


@pytest.mark.parametrize("key", ["", " x", "x ", "x\ny", "\udcff"])
def test_keys_that_no_client_can_send_are_refused(key):
    with pytest.raises(ArgumentError, match="--api-key 1 cannot be sent"):
        gathered([key], None, {})

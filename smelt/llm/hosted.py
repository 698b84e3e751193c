"""A model behind an API of OpenAI's shape, beside one that runs here: what both answer, and how quickly.

The address and the key come from the environment. A key is sent only to the address that it belongs to, never over a
line without encryption unless that ends on this machine, and stands in no message. Answers are of bounded size.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from smelt.errors import ArgumentError, ParseError, SmeltError

if TYPE_CHECKING:
    from smelt.llm.language import LanguageModel

__all__ = ["Hosted", "Said", "compared", "found_in"]

URL: Final = "SMELT_HOSTED_URL"
KEY: Final = "SMELT_HOSTED_KEY"
# Providers by the variable that their users have their key in.
PROVIDERS: Final = {
    "CEREBRAS_API_KEY": "https://api.cerebras.ai/v1",
    "OPENAI_API_KEY": "https://api.openai.com/v1",
}
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_PATIENCE: Final = 120.0  # seconds without a byte
_MOST_BYTES: Final = 1 << 23
_MOST_LINE: Final = 1 << 20
_MOST_MODELS: Final = 4096


class Said(NamedTuple):
    """An answer: its text, tokens, seconds to the first piece and in all, and what the other side says of its time."""

    who: str
    text: str
    prompt_tokens: int
    tokens: int
    first: float
    seconds: float
    time_info: Mapping[str, Any] | None = None

    def row(self) -> dict[str, Any]:
        """Figures, for tables and JSON."""
        rest = self.seconds - self.first
        rate = round((self.tokens - 1) / rest, 2) if self.tokens > 1 and rest > 0 else None
        found = {
            "contender": self.who,
            "prompt_tokens": self.prompt_tokens,
            "tokens": self.tokens,
            "seconds_to_first_token": round(self.first, 4),
            "seconds": round(self.seconds, 4),
            "tokens_per_second": rate,
        }
        return found | ({"time_info": dict(self.time_info)} if self.time_info else {})


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Who sends us elsewhere would get the key there, too."""

    def redirect_request(self, *_: Any) -> None:
        """Follow nobody."""


class Hosted:
    """An API at a base URL such as `https://api.cerebras.ai/v1`."""

    def __init__(self, url: str, key: str | None = None) -> None:
        parts = urlsplit(url)
        self.here = parts.hostname in _LOOPBACK
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
            raise ArgumentError(f"{url!r:.120} is no base URL", rule="it is such as https://host/v1.")
        if parts.scheme == "http" and not self.here:
            raise ArgumentError(
                f"{parts.hostname} is asked without encryption", rule="a key and what is said would be read by others."
            )
        if key is not None and not (key.isascii() and key.isprintable() and key.strip()):
            raise ArgumentError("the key of the hosted API is no key", rule="it is one line of printable characters.")
        self.name = parts.hostname
        self._url, self._key = url.rstrip("/"), key
        proxies = [urllib.request.ProxyHandler({})] if self.here else []
        self._opener = urllib.request.build_opener(_NoRedirect, *proxies)

    def models(self) -> list[str]:
        """The models that can be asked for."""
        with self._asked("/models") as response:
            data = response.read(_MOST_BYTES + 1)
        try:
            listed = json.loads(data if len(data) <= _MOST_BYTES else b"")["data"]
            names = [str(one["id"]) for one in listed][:_MOST_MODELS]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ParseError(f"{self.name} does not list its models as OpenAI does") from None
        return names

    def say(
        self,
        model: str,
        messages: Sequence[Mapping[str, str]],
        max_tokens: int,
        told: Callable[[str], None] = lambda text: None,
    ) -> Said:
        """An answer to messages, as a stream; `told` hears it as it comes."""
        asked = {"model": model, "messages": list(messages), "max_tokens": max_tokens, "temperature": 0}
        return self.streamed("/chat/completions", asked, told)

    def streamed(self, path: str, asked: Mapping[str, Any], told: Callable[[str], None] = lambda text: None) -> Said:
        """An answer to a request for a chat or a text, as a stream with its usage."""
        began, first, pieces, counted = time.perf_counter(), 0.0, [], 0
        usage: Mapping[str, Any] = {}
        time_info: Mapping[str, Any] | None = None
        with self._asked(path, {**asked, "stream": True, "stream_options": {"include_usage": True}}) as got:
            for event in _events(got, self.name):
                if "error" in event:
                    raise ArgumentError(f"{self.name}: {_message(event)}")
                usage, time_info = _mapping(event, "usage") or usage, _mapping(event, "time_info") or time_info
                text = _text_of(event)
                if text:
                    first, counted = first or time.perf_counter(), counted + 1
                    pieces.append(text)
                    told(text)
        ended = time.perf_counter()
        counts = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
        read, wrote = (count if isinstance(count, int) else 0 for count in counts)
        who = f"{self.name}: {asked.get('model')}"
        return Said(who, "".join(pieces), read, wrote or counted, (first or ended) - began, ended - began, time_info)

    @contextlib.contextmanager
    def _asked(self, path: str, body: Mapping[str, Any] | None = None) -> Iterator[Any]:
        headers = {"content-type": "application/json", "user-agent": "smelt"}
        if self._key is not None:
            headers["authorization"] = f"Bearer {self._key}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, headers)
        try:
            with self._opener.open(request, timeout=_PATIENCE) as response:
                yield response
        except SmeltError:
            raise
        except urllib.error.HTTPError as error:
            told = _message(_object(error.read(1 << 16)))
            raise ArgumentError(f"{self.name} answers {error.code}: {told}") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise ArgumentError(f"{self.name} cannot be asked: {reason!s:.200}") from None


def _events(response: Any, name: str) -> Iterator[dict[str, Any]]:
    """The events of a stream; whatever else a server sends is left out."""
    total = 0
    while line := response.readline(_MOST_LINE + 1):
        total += len(line)
        if len(line) > _MOST_LINE or total > _MOST_BYTES:
            raise ParseError(f"{name} sends more than an answer has")
        text = line.strip()
        if text == b"data: [DONE]":
            return
        if text.startswith(b"data:"):
            yield _object(text[5:])


def _object(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _mapping(event: Mapping[str, Any], key: str) -> Mapping[str, Any] | None:
    found = event.get(key)
    return found if isinstance(found, Mapping) else None


def _text_of(event: Mapping[str, Any]) -> str:
    choices = event.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    delta = choice.get("delta")
    found = delta if isinstance(delta, dict) else choice
    # Models that think aloud first send that under another name; it is writing, too. Texts have no delta.
    parts = [found.get(name) for name in ("reasoning", "reasoning_content", "content", "text")]
    return "".join(part for part in parts if isinstance(part, str))


def _message(event: Mapping[str, Any]) -> str:
    error = event.get("error", event)
    text = error.get("message") if isinstance(error, Mapping) else error
    return f"{text!s:.300}" if text else "without a reason"


def found_in(environment: Mapping[str, str] = os.environ, url: str | None = None) -> Hosted | None:
    """The API that the environment names, or that at `url` with the key that belongs there; none without a key."""
    bases = dict(PROVIDERS)
    if environment.get("OPENAI_BASE_URL"):
        bases["OPENAI_API_KEY"] = environment["OPENAI_BASE_URL"]
    pairs = [(environment.get(URL) or url, environment.get(KEY))]
    pairs += [(base, environment.get(name)) for name, base in bases.items()]
    if url is None:
        pairs = [(base, key) for base, key in pairs if base and (key or urlsplit(base).hostname in _LOOPBACK)]
        return Hosted(str(pairs[0][0]), pairs[0][1]) if pairs else None
    own = [(base, key) for base, key in pairs if base and key and _origin(base) == _origin(url)]
    key = own[0][1] if own else None
    found = Hosted(url, key)
    return found if key or found.here else None


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


def without_key(url: str | None) -> str:
    """What there is to say where nothing can be asked."""
    where, names = url or "a hosted model", " or ".join(PROVIDERS)
    return f"{where} is not compared: there is no key. Set {KEY} with {URL}, or {names}, and run this again"


def compared(
    model: LanguageModel,
    hosted: Hosted,
    their_model: str,
    prompt: str,
    max_tokens: int,
    told: Callable[[str], None] = lambda text: None,
) -> tuple[Said, Said]:
    """What a model here and a hosted one answer to the same message, both with the most likely tokens."""
    from smelt.llm.sampling import Sampling

    messages = [{"role": "user", "content": prompt}]
    answer = model.generate(messages, Sampling(temperature=0.0), max_tokens=max_tokens)
    figures = answer.figures
    seconds = figures.finished - figures.submitted
    first = (figures.first or figures.finished) - figures.submitted
    ours = Said(f"smelt: {model.name}", answer.text, figures.prompt_tokens, figures.tokens, first, seconds)
    return ours, hosted.say(their_model, messages, max_tokens, told)


def chosen(hosted: Hosted, wanted: str | None) -> str:
    """The model to ask for: the one that is wanted, if it is listed, or the first one."""
    names = hosted.models()
    if not names:
        raise ArgumentError(f"{hosted.name} lists no models")
    if wanted is not None and wanted not in names:
        raise ArgumentError(f"{hosted.name} has no model {wanted!r:.80}", rule=f"it has {', '.join(names)[:400]}.")
    return wanted or names[0]

"""Bodies of requests, checked: JSON to `Asked`. Every mistake is an `ApiError` that names the field."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from smelt.errors import ArgumentError
from smelt.llm.sampling import MOST_LOGPROBS, Sampling

MOST_BODY: Final = 1 << 20  # bytes
MOST_MESSAGES: Final = 1024
MOST_STOPS: Final = 4
MOST_STOP: Final = 256  # bytes of each
MOST_CHOICES: Final = 16
MOST_PROMPTS: Final = 64
MOST_TOOLS: Final = 128
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")  # of a function


class ApiError(Exception):
    """An error as clients of OpenAI's protocol expect it."""

    def __init__(
        self, message: str, *, status: int = 400, param: str | None = None, code: str | None = None, retry: int = 0
    ) -> None:
        super().__init__(message)
        self.message, self.status, self.param, self.code, self.retry = message, status, param, code, retry

    def json(self) -> dict[str, Any]:
        """The body of the answer."""
        kind = "invalid_request_error" if self.status < 500 and self.status != 429 else "server_error"
        kind = "rate_limit_error" if self.status == 429 else kind
        found = {"message": self.message, "type": kind, "param": self.param, "code": self.code}
        # Halves of surrogate pairs, which JSON can name, have no bytes.
        return {
            "error": {name: text and text.encode("utf-8", "backslashreplace").decode() for name, text in found.items()}
        }


@dataclass(frozen=True)
class Asked:
    """What a client wants, of one or more prompts: text, tokens or messages."""

    prompts: tuple[Any, ...]
    sampling: Sampling
    model: str = ""
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    choices: int = 1
    stream: bool = False
    usage: bool = False  # in a stream, at its end
    goes_on: bool = False  # behind tokens that end a text, as benchmarks ask for
    schema: Mapping[str, Any] | None = None  # of JSON; empty: any object
    tools: tuple[Mapping[str, Any], ...] = ()  # functions, as the client describes them
    forced: tuple[str, ...] = ()  # names of those of which one must be called
    parallel: bool = True  # whether an answer may have several calls

    def seeded(self, choice: int) -> Sampling:
        """How a choice is drawn: each of several differently."""
        return replace(self.sampling, seed=(self.sampling.seed + choice) % 2**64)


Check = Callable[[Any], Any]


def _number(least: float, most: float) -> Check:
    def check(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ApiError("must be a number")
        if not least <= value <= most:  # NaN is nowhere, and integers may be larger than any float
            raise ApiError(f"must be at least {least} and at most {most}")
        return float(value)

    return check


def _integer(least: int, most: int) -> Check:
    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ApiError("must be an integer")
        if not least <= value <= most:
            raise ApiError(f"must be at least {least} and at most {most}")
        return value

    return check


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ApiError("must be true or false")
    return value


def text(value: Any) -> str:
    """A string."""
    if not isinstance(value, str):
        raise ApiError("must be a string")
    return value


def _only(*allowed: Any) -> Check:
    def check(value: Any) -> Any:
        if value not in allowed:
            raise ApiError(f"{value!r:.80} is not supported here; only {', '.join(map(repr, allowed))}")
        return value

    return check


def _anything(value: Any) -> Any:
    return value


def _stops(value: Any) -> tuple[str, ...]:
    stops = [value] if isinstance(value, str) else value
    if not isinstance(stops, list) or not all(isinstance(stop, str) and stop for stop in stops):
        raise ApiError("must be a string, or a list of strings that are not empty")
    if len(stops) > MOST_STOPS or any(len(stop.encode("utf-8", "replace")) > MOST_STOP for stop in stops):
        raise ApiError(f"may have {MOST_STOPS} strings of {MOST_STOP} bytes")
    return tuple(stops)


def _bias(value: Any) -> dict[int, float]:
    if not isinstance(value, dict) or len(value) > 1024:
        raise ApiError("must be an object with at most 1024 tokens")
    check = _number(-100, 100)
    try:
        pairs = {int(token): check(bias) for token, bias in value.items()}
    except ValueError:
        raise ApiError("must have token numbers as its names") from None
    return {token: -math.inf if bias == -100 else bias for token, bias in pairs.items()}


def _stream_options(value: Any) -> bool:
    if not isinstance(value, dict) or set(value) - {"include_usage", "include_obfuscation"}:
        raise ApiError("must be an object, with include_usage")
    return _flag(value.get("include_usage", False))


def _response_format(value: Any) -> Mapping[str, Any] | None:
    kind = value.get("type") if isinstance(value, dict) else None
    if kind == "text":
        return None
    if kind == "json_object":
        return {}
    if kind == "json_schema":
        inner = value.get("json_schema")
        schema = inner.get("schema") if isinstance(inner, dict) else None
        if not isinstance(schema, dict) or not schema:
            raise ApiError("must have a json_schema with a schema that is an object")
        return schema
    raise ApiError("must have a type: text, json_object or json_schema")


def _messages(value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not value:
        raise ApiError("must be a list of messages that is not empty")
    if len(value) > MOST_MESSAGES:
        raise ApiError(f"has {len(value)} messages; {MOST_MESSAGES} are the most")
    return [_message(message, place) for place, message in enumerate(value)]


def _message(message: Any, place: int) -> dict[str, Any]:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise ApiError(f"message {place} must be an object with a role")
    role = "system" if message["role"] == "developer" else message["role"]
    if role not in ("system", "user", "assistant", "tool"):
        raise ApiError(f"message {place} has the role {role!r:.40}; it is system, user, assistant or tool")
    content = message.get("content")
    more = _tool_fields(message, role, place)
    if content is None and "tool_calls" in more:
        content = ""
    if isinstance(content, list):  # of parts, of which only text can be read
        if not all(isinstance(part, dict) and part.get("type") == "text" for part in content):
            raise ApiError(f"message {place} has content that is no text, which this model cannot read")
        content = "".join([text(part.get("text")) for part in content])
    if not isinstance(content, str):
        raise ApiError(f"message {place} must have a content that is a string")
    return {"role": role, "content": content, **more}


def _tool_fields(message: dict[str, Any], role: str, place: int) -> dict[str, Any]:
    """What a message has of calls: those that were made, with arguments as data, or whose result it is."""
    if role == "tool":
        given = {name: message[name] for name in ("tool_call_id", "name") if message.get(name) is not None}
        return {name: text(value) for name, value in given.items()}
    calls = message.get("tool_calls") if role == "assistant" else None
    if not calls:
        return {}
    if not isinstance(calls, list) or len(calls) > MOST_TOOLS:
        raise ApiError(f"message {place} must have a list of at most {MOST_TOOLS} tool_calls")
    return {"tool_calls": [_made_call(call, place) for call in calls]}


def _made_call(call: Any, place: int) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise ApiError(f"message {place} has a tool call without a function that has a name")
    try:
        arguments = json.loads(text(function.get("arguments") or "{}"))
    except (ApiError, ValueError, RecursionError):
        raise ApiError(f"message {place} has a tool call whose arguments are no JSON") from None
    made = {"type": "function", "function": {"name": function["name"], "arguments": arguments}}
    return made | ({"id": call["id"]} if isinstance(call.get("id"), str) else {})


def _tools(value: Any) -> tuple[Mapping[str, Any], ...]:
    if not isinstance(value, list) or len(value) > MOST_TOOLS:
        raise ApiError(f"must be a list of at most {MOST_TOOLS} functions")
    for tool in value:
        function = tool.get("function") if isinstance(tool, dict) and tool.get("type") == "function" else None
        name = function.get("name") if isinstance(function, dict) else None
        if not isinstance(function, dict) or not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ApiError("must have a function with a name of at most 64 letters, digits, _ and -, each of its type")
        if not isinstance(function.get("parameters") or {}, dict):
            raise ApiError(f"{name} must have parameters that are a JSON schema")
    if len({tool["function"]["name"] for tool in value}) < len(value):
        raise ApiError("has two functions of the same name")
    return tuple(value)


def _tool_choice(value: Any) -> str | Mapping[str, Any]:
    """Of a function that is named, its name in an object."""
    if value in ("none", "auto", "required"):
        return str(value)
    function = value.get("function") if isinstance(value, dict) and value.get("type") == "function" else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise ApiError("must be none, auto, required, or an object that names a function")
    return {"name": function["name"]}


def _chosen(fields: dict[str, Any]) -> tuple[tuple[Mapping[str, Any], ...], tuple[str, ...]]:
    """The tools that a model is told of, and the names of those of which it must call one."""
    tools, choice = fields.get("tools", ()), fields.get("tool_choice", "auto")
    names = tuple(tool["function"]["name"] for tool in tools)
    wanted = (choice["name"],) if isinstance(choice, Mapping) else names if choice == "required" else ()
    if not set(wanted) <= set(names) or (choice == "required" and not names):
        raise ApiError(f"there is no tool {', '.join(wanted)!r:.80}", param="tool_choice", code="invalid_value")
    if wanted and fields.get("response_format") is not None:
        raise ApiError("an answer cannot be both a tool call and of a response_format", param="response_format")
    return (() if choice == "none" else tools), wanted


def _prompts(value: Any) -> list[Any]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and value and len(value) <= MOST_PROMPTS and all(isinstance(one, str) for one in value):
        return value
    if _is_tokens(value):
        return [value]
    if isinstance(value, list) and value and len(value) <= MOST_PROMPTS and all(map(_is_tokens, value)):
        return value
    raise ApiError(f"must be a string, a list of tokens, or at most {MOST_PROMPTS} of either")


def tokens(value: Any) -> list[int]:
    """Numbers of tokens."""
    if not _is_tokens(value):
        raise ApiError("must be a list of tokens")
    found: list[int] = value
    return found


def _is_tokens(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(token) is int for token in value)


# What both kinds of requests may have, and how it is checked.
_COMMON: Final[dict[str, Check]] = {
    "model": text,
    "stream": _flag,
    "stream_options": _stream_options,
    "n": _integer(1, MOST_CHOICES),
    "stop": _stops,
    "seed": _integer(-(2**63), 2**63 - 1),
    "logit_bias": _bias,
    "temperature": _number(0, 2),
    "top_p": _number(0, 1),
    "top_k": _integer(0, 2**31 - 1),
    "min_p": _number(0, 1),
    "presence_penalty": _number(-2, 2),
    "frequency_penalty": _number(-2, 2),
    "repetition_penalty": _number(0.01, 100),
    "max_tokens": _integer(1, 2**31 - 1),
    "ignore_eos": _flag,
    "user": _anything,
    "metadata": _anything,
}
CHAT: Final[dict[str, Check]] = _COMMON | {
    "messages": _messages,
    "max_completion_tokens": _integer(1, 2**31 - 1),
    "logprobs": _flag,
    "top_logprobs": _integer(0, MOST_LOGPROBS),
    "response_format": _response_format,
    "tools": _tools,
    "tool_choice": _tool_choice,
    "parallel_tool_calls": _flag,
    "modalities": _only(["text"]),
    **dict.fromkeys(("store", "service_tier"), _anything),
    **dict.fromkeys(("prompt_cache_key", "safety_identifier"), _anything),
}
TEXT: Final[dict[str, Check]] = _COMMON | {
    "prompt": _prompts,
    "logprobs": _integer(0, MOST_LOGPROBS),
    "echo": _only(False),
    "suffix": _only(""),
    "best_of": _integer(1, MOST_CHOICES),
}


EMBEDDINGS: Final[dict[str, Check]] = {
    "input": _prompts,
    "model": text,
    "encoding_format": _only("float", "base64"),
    "user": _anything,
}


def fields_of(body: bytes, checks: Mapping[str, Check], needed: Sequence[str]) -> dict[str, Any]:
    """The fields of a body, each checked; null counts as absent."""
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        raise ApiError("the body is not JSON") from None
    if not isinstance(given, dict):
        raise ApiError("the body must be a JSON object")
    fields = {}
    for name, value in given.items():
        if name not in checks:
            raise ApiError(f"there is no argument {name!r:.80}", param=name[:80], code="unknown_parameter")
        if value is None:
            continue
        try:
            fields[name] = checks[name](value)
        except ApiError as error:
            raise ApiError(f"{name} {error.message}", param=name, code="invalid_value") from None
    for name in needed:
        if name not in fields:
            raise ApiError(f"{name} is missing", param=name, code="missing_required_parameter")
    return fields


def chat(body: bytes, seed: int) -> Asked:
    """A request for the next message of a chat; `seed` is used if it brings none."""
    fields = fields_of(body, CHAT, ["messages"])
    wants = fields.get("logprobs", False)
    if "top_logprobs" in fields and not wants:
        raise ApiError("top_logprobs needs logprobs to be true", param="top_logprobs")
    logprobs = fields.get("top_logprobs", 0) if wants else None
    limit = fields.get("max_completion_tokens", fields.get("max_tokens"))
    tools, forced = _chosen(fields)
    found = _asked(fields, (fields["messages"],), logprobs, limit, seed)
    return replace(found, tools=tools, forced=forced, parallel=fields.get("parallel_tool_calls", True))


def completion(body: bytes, seed: int) -> Asked:
    """A request for how texts go on; OpenAI's default is 16 tokens."""
    fields = fields_of(body, TEXT, ["prompt"])
    if fields.get("best_of", fields.get("n", 1)) != fields.get("n", 1):
        raise ApiError("best_of must be n", param="best_of")
    return _asked(fields, tuple(fields["prompt"]), fields.get("logprobs"), fields.get("max_tokens", 16), seed)


def _asked(
    fields: dict[str, Any], prompts: tuple[Any, ...], logprobs: int | None, limit: int | None, seed: int
) -> Asked:
    try:
        sampling = Sampling(
            temperature=fields.get("temperature", 1.0),
            top_k=fields.get("top_k", 0),
            top_p=max(fields.get("top_p", 1.0), 1e-6),
            min_p=fields.get("min_p", 0.0),
            repetition=fields.get("repetition_penalty", 1.0),
            presence=fields.get("presence_penalty", 0.0),
            frequency=fields.get("frequency_penalty", 0.0),
            seed=fields.get("seed", seed) % 2**64,
            bias=fields.get("logit_bias", {}),
            logprobs=logprobs,
        )
    except ArgumentError as error:
        raise ApiError(error.told) from error
    return Asked(
        prompts,
        sampling,
        fields.get("model", ""),
        limit,
        fields.get("stop", ()),
        fields.get("n", 1),
        fields.get("stream", False),
        fields.get("stream_options", False),
        fields.get("ignore_eos", False),
        fields.get("response_format"),
    )

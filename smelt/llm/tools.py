"""Calls of functions in what models write: how each family was taught to write them, and how they are forced to.

A model's template tells it of functions, and it calls one by writing text of a form that its family has. A form is a
row of `FORMS`; what recognizes calls while a text comes, and the grammar of an answer that must be a call, follow
from it. What looks like a call and is none (no JSON, a function that nobody offered) stays text.
"""

from __future__ import annotations

import json
import re
import secrets
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from smelt.errors import ArgumentError

__all__ = ["FORMS", "Call", "Calls", "Form", "form_of", "grammar"]


@dataclass(frozen=True)
class Form:
    """How calls are written: a JSON object with a name and arguments, or a list of them, between two texts."""

    name: str
    told: re.Pattern[str]  # what is in templates of this form
    begins: tuple[str, ...]  # any of these; the first is what an answer is forced to begin with
    end: str = ""  # nothing: the end of the answer
    arguments: str = "arguments"  # the key of the arguments
    before: str = ""  # the first object, and after the last
    after: str = ""
    bare: bool = False  # an answer that begins with { is a call, too

    @property
    def markers(self) -> tuple[str, ...]:
        """Texts that may be tokens of their own, and that are no text in other answers."""
        return tuple(marker for marker in (*self.begins, self.end) if marker)


# The first whose words are in a template is its form.
FORMS: Final = (
    Form("hermes", re.compile(r"<tool_call>"), ("<tool_call>",), "</tool_call>", before="\n", after="\n"),
    Form("mistral", re.compile(r"\[TOOL_CALLS\]"), ("[TOOL_CALLS]",), before="[", after="]"),
    Form(
        "llama3",
        re.compile(r"<\|python_tag\|>|\"parameters\"|Environment: ipython"),
        ("", "<|python_tag|>"),
        arguments="parameters",
        bare=True,
    ),
)
_TOOLS: Final = re.compile(r"\btools\b")
_LETTERS: Final = string.ascii_letters + string.digits
_BETWEEN: Final = re.compile(r"[\s;,]*")


class Call(NamedTuple):
    """A function and its arguments, as JSON."""

    id: str
    name: str
    arguments: str

    def json(self) -> dict[str, Any]:
        """The call in OpenAI's shape."""
        return {
            "id": self.id,
            "type": "function",
            "function": {"name": self.name, "arguments": self.arguments},
        }


def form_of(template: str) -> Form:
    """How a model with this template calls functions; an `ArgumentError` if it was not taught to, or nobody knows."""
    if not _TOOLS.search(template):
        raise ArgumentError(
            "this model has no tools", rule="its chat template has no place for functions, so it would not call them."
        )
    found = next((form for form in FORMS if form.told.search(template)), None)
    if found is None:
        known = ", ".join(form.name for form in FORMS)
        raise ArgumentError("how this model calls tools is not known", rule=f"known forms are {known}.")
    return found


class Calls:
    """Finds calls in a text that comes in pieces.

    >>> calls = Calls(FORMS[0], ["add"])
    >>> calls.feed("So: <tool")
    ('So: ', [])
    >>> text, found = calls.feed('_call>{"name": "add", "arguments": {"a": 1}}</tool_call>')
    >>> text, found[0].name, found[0].arguments
    ('', 'add', '{"a": 1}')
    """

    def __init__(self, form: Form, names: Sequence[str]) -> None:
        self._form, self._names = form, frozenset(names)
        self._held = ""
        self._begun: str | None = None  # with what the call began that is being written
        self._has_said = False
        self.count = 0

    def feed(self, text: str) -> tuple[str, list[Call]]:
        """What is certain now that this text came: text that is no call, and calls."""
        self._held += text
        return self._advanced(final=False)

    def close(self) -> tuple[str, list[Call]]:
        """What was held back, when no more text comes."""
        return self._advanced(final=True)

    def _advanced(self, final: bool) -> tuple[str, list[Call]]:
        said, found = "", list[Call]()
        while self._held:
            if self._begun is None:
                text, is_certain = self._before(final)
                said += self._spoken(text)
                if not is_certain:
                    break
            else:
                body = self._body(final)
                if body is None:
                    break
                found += body[0]
                self.count += len(body[0])
                said += self._spoken(body[1])
        return said, found

    def _spoken(self, text: str) -> str:
        text = "" if self.count and not text.strip() else text  # what stands between calls
        self._has_said = self._has_said or bool(text.strip())
        return text

    def _before(self, final: bool) -> tuple[str, bool]:
        """Text in front of a call, taken off what is held; and whether a call begins behind it."""
        held, form = self._held, self._form
        places = [(held.find(marker), marker) for marker in form.begins if marker and marker in held]
        if form.bare and not self._has_said and held.lstrip().startswith("{"):
            places.append((held.index("{"), ""))
        if places:
            place, self._begun = min(places)
            self._held = held[place + len(self._begun) :]
            return held[:place], True
        keep = 0 if final else max(_overlap(held, marker) for marker in form.begins)
        if form.bare and not self._has_said and not final and not held.strip():
            keep = len(held)
        self._held = held[len(held) - keep :]
        return held[: len(held) - keep], False

    def _body(self, final: bool) -> tuple[list[Call], str] | None:
        """The calls between their marks, or the text that they are if they are none; `None` before the end."""
        body, end, rest = self._held.partition(self._form.end) if self._form.end else (self._held, "", "")
        if not end and not final:
            return None
        calls = _read(body, self._form, self._names)
        text = "" if calls else f"{self._begun}{body}{end}"
        self._held, self._begun = rest, None
        return calls, text


def _read(text: str, form: Form, names: frozenset[str]) -> list[Call]:
    """The calls of one or more JSON values; none if anything about them is wrong."""
    values: list[Any] = []
    place, decoder = _BETWEEN.match(text).end(), json.JSONDecoder()  # type: ignore[union-attr]
    try:
        while place < len(text):
            value, place = decoder.raw_decode(text, place)
            values += value if isinstance(value, list) else [value]
            place = _BETWEEN.match(text, place).end()  # type: ignore[union-attr]
    except (ValueError, RecursionError):
        return []
    calls = [_call(value, form, names) for value in values]
    return [call for call in calls if call is not None] if None not in calls else []


def _call(value: Any, form: Form, names: frozenset[str]) -> Call | None:
    if not isinstance(value, dict) or not isinstance(value.get("name"), str) or value["name"] not in names:
        return None
    given: Any = next((value[key] for key in (form.arguments, "arguments", "parameters") if key in value), {})
    try:
        given = json.loads(given) if isinstance(given, str) else given  # JSON within JSON, as some models write it
        text = json.dumps(given, ensure_ascii=False, allow_nan=False)  # Python reads NaN, which is no JSON
    except (ValueError, RecursionError):
        return None
    if not isinstance(given, dict):
        return None
    # Halves of surrogate pairs are no characters, and stay the escapes that they were.
    text = text.encode("utf-8", "backslashreplace").decode()
    # Templates of Mistral's take no other ids than of nine letters and digits.
    name = "".join(secrets.choice(_LETTERS) for _ in range(9))
    return Call(name, value["name"], text)


def _overlap(text: str, marker: str) -> int:
    """How many characters at the end of `text` begin `marker`."""
    return next((n for n in range(min(len(text), len(marker) - 1), 0, -1) if text.endswith(marker[:n])), 0)


def grammar(form: Form, functions: Sequence[Mapping[str, Any]], controls: Mapping[str, int]) -> str:
    """The grammar of an answer that is one call of one of these functions, for `Grammars.lark`.

    `controls` are tokens by name: those of marks are no text.
    """

    def mark(text: str) -> str:
        return f"<[{controls[text]}]>" if text in controls else json.dumps(text) if text else ""

    rules, names = [], [f"call{number}" for number in range(len(functions))]
    for number, function in enumerate(functions):
        schema = {**(function.get("parameters") or {}), "type": "object"}  # arguments are nothing else
        schema["x-guidance"] = {"whitespace_flexible": False}
        head = json.dumps(f'{{"name": {json.dumps(function["name"])}, "{form.arguments}": ')
        rules.append(f'call{number}: {head} arguments{number} "}}"')
        rules.append(f"arguments{number}: %json {json.dumps(schema)}")
    parts = [mark(form.begins[0]), mark(form.before), f"({' | '.join(names)})", mark(form.after), mark(form.end)]
    return "\n".join([f"start: {' '.join(part for part in parts if part)}", *rules])

"""Conversations to prompts, by the template of the model.

Two things are kept apart: what the template writes, in which names of control tokens are these tokens, and what people
wrote, in which they are text. A message that says `<|im_end|>` does not end its turn.
"""

from __future__ import annotations

import json
import re
import select
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from smelt.errors import ArgumentError, ParseError
from smelt.llm import rendering
from smelt.llm.tokens import Tokenizer
from smelt.locks import new_lock

_ROLES: Final = frozenset({"system", "developer", "user", "assistant", "tool", "function", "ipython", "model"})
_PLAIN: Final = re.compile(r"[A-Za-z_]*")
_MARKS: Final = "".join(map(chr, range(0xFDD0, 0xFDF0)))  # code points that are no characters
_WAIT: Final = 20.0  # seconds for an answer; the child's own limit is one of computing
_LONGEST_TEMPLATE: Final = 1 << 18
_DEEPEST: Final = 32


class ChatTemplate:
    """Messages to the tokens of a prompt, by the Jinja template in a model's file.

    `trusted` renders in this process: for templates that you wrote or read. Others are rendered in a child process
    with limits (`rendering.py`).

    >>> template = ChatTemplate(metadata["tokenizer.chat_template"], tokenizer)          # doctest: +SKIP
    >>> template.prompt([{"role": "user", "content": "What is 1 + 1?"}])                 # doctest: +SKIP
    """

    def __init__(self, text: str | None, tokenizer: Tokenizer, *, trusted: bool = False) -> None:
        if text is None:
            raise ArgumentError(
                "This model has no chat template.",
                rule="How a model was taught to tell messages apart cannot be guessed.",
                hint="Give the template as text, or use the model to continue plain text.",
            )
        if not isinstance(text, str) or len(text) > _LONGEST_TEMPLATE:
            raise ParseError(f"A chat template is a text of at most {_LONGEST_TEMPLATE} characters.")
        _need_jinja()
        self._text = text
        self._tokenizer = tokenizer
        self._names = {f"{name}_token": token for name, token in tokenizer.special_names().items()}
        self._answer: Callable[[str], dict[str, str]] = rendering.answer if trusted else _Child().answer

    @property
    def text(self) -> str:
        """The template itself."""
        return self._text

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **more: Any,
    ) -> str:
        """The prompt as text. `more` are variables of the template, such as `enable_thinking`."""
        said = {"messages": _checked(messages), "tools": list(tools) if tools else None, **more}
        return self._render({**said, "add_generation_prompt": add_generation_prompt})

    def prompt(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **more: Any,
    ) -> list[int]:
        """The prompt as tokens. Contents of messages and tools never become control tokens."""
        said = {"messages": _checked(messages), "tools": list(tools) if tools else None, **more}
        said["add_generation_prompt"] = add_generation_prompt
        text = self._render(said)
        mark = _unused(text, said)
        marked = self._render(_marked(said, self._everywhere(mark)))
        parts = self._tokenizer.parts(marked)
        if marked.replace(mark, "") != text:
            # The template looked at a place with a mark, so marks are only where they have to be. That such a prompt
            # has the same control tokens says that none came about by joining.
            sparse = self._tokenizer.parts(self._render(_marked(said, self._inside(mark))))
            if _ids(sparse) != _ids(parts):
                raise ParseError(
                    "This chat template makes control tokens of what messages contain.",
                    rule="Messages are text: they cannot begin or end turns.",
                    hint=f"Leave texts such as {next(iter(self._tokenizer.control), '<s>')!r} out of the messages.",
                )
            parts = sparse
        clean = [part.replace(mark, "") if isinstance(part, str) else part for part in parts]
        # Some templates write the token that begins a text, others leave it to the tokenizer.
        begun = clean[:1] == [self._tokenizer.bos]
        return self._tokenizer.encode_parts(clean, bos=self._tokenizer.add_bos and not begun)

    def _render(self, said: Mapping[str, Any]) -> str:
        variables = {**self._names, "documents": None, **said}
        try:
            # Halves of surrogate pairs are no characters; no file or terminal could take them either.
            request = json.dumps({"template": self._text, "variables": variables}, ensure_ascii=True)
        except (TypeError, ValueError, RecursionError) as error:
            raise ArgumentError(f"Messages and tools are what JSON can say: {error}.") from None
        answer = self._answer(request)
        if "text" not in answer:
            wrong = {"refused": "refuses these messages", "syntax": "is no Jinja template"}
            raise ParseError(f"The chat template {wrong.get(answer['kind'], 'failed')}: {answer['error']}")
        return answer["text"]

    def _everywhere(self, mark: str) -> Callable[[str], str]:
        """Put marks around every character that begins a control token, and around a text: then no part of it can be
        a part of one, however a template joins texts.
        """
        begins = re.compile(f"([{re.escape(''.join({name[0] for name in self._tokenizer.control}))}])")

        def marked(text: str) -> str:
            inner = text.strip()
            if not inner:
                return text
            # Around what is left when spaces are stripped, so that stripping works as ever.
            place = text.index(inner)
            inside = begins.sub(rf"{mark}\1{mark}", inner) if self._tokenizer.control else inner
            return f"{text[:place]}{mark}{inside}{mark}{text[place + len(inner) :]}"

        return marked

    def _inside(self, mark: str) -> Callable[[str], str]:
        """Put a mark into every name of a control token."""
        names = sorted(self._tokenizer.control, key=len, reverse=True)
        found = re.compile("|".join(map(re.escape, names)) or r"(?!)")
        return lambda text: found.sub(lambda name: f"{name[0][0]}{mark}{name[0][1:]}", text)


def _ids(parts: Iterable[str | int]) -> list[int]:
    return [part for part in parts if isinstance(part, int)]


def _checked(messages: object) -> list[dict[str, Any]]:
    """Messages with roles that are known: roles are written into control tokens by some templates."""
    if not isinstance(messages, Sequence) or isinstance(messages, str) or not messages:
        raise ArgumentError("Messages are a list, and not an empty one.")
    for message in messages:
        role = message.get("role") if isinstance(message, Mapping) else None
        if role not in _ROLES:
            raise ArgumentError(
                f"A message has the role {str(role)[:40]!r}.",
                rule='A message is a dictionary such as {"role": "user", "content": "Hello"}.',
                hint=f"Roles are {', '.join(sorted(_ROLES))}.",
            )
    return [dict(message) for message in messages]


def _marked(value: Any, mark: Callable[[str], str], key: str = "", depth: int = 0) -> Any:
    """`value` with `mark` applied to all that people wrote: texts, and keys that are not plain words."""
    if depth > _DEEPEST:
        raise ArgumentError(f"Messages and tools are nested more than {_DEEPEST} deep.")
    if isinstance(value, str):
        # Words that templates compare: roles, kinds of parts, and what is beside messages and tools.
        compared = depth == 1 or key in ("role", "type")
        return value if compared and _PLAIN.fullmatch(value) else mark(value)
    if isinstance(value, Mapping):
        return {
            name if not isinstance(name, str) or _PLAIN.fullmatch(name) else mark(name): _marked(
                item, mark, name, depth + 1
            )
            for name, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_marked(item, mark, key, depth + 1) for item in value]
    return value


def _unused(text: str, said: object) -> str:
    """A character that is in none of these texts."""
    written = text + json.dumps(said, ensure_ascii=False)
    free = next((mark for mark in _MARKS if mark not in written), None)
    if free is None:
        raise ArgumentError("The messages use all code points of Unicode that are no characters.")
    return free


def _need_jinja() -> None:
    try:
        import jinja2  # noqa: F401
    except ImportError:
        raise ArgumentError(
            "Chat templates need the package jinja2.", hint="Install it with pip install smelt[llm]."
        ) from None


class _Child:
    """The process that renders: started when it is first needed, and again after it was ended."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._lock = new_lock()

    def answer(self, request: str) -> dict[str, str]:
        """What the process answers, or that it was over its limits."""
        with self._lock:
            process = self._started()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                process.stdin.write(request + "\n")
                process.stdin.flush()
                line = process.stdout.readline() if select.select([process.stdout], [], [], _WAIT)[0] else ""
            except OSError:
                line = ""
            if not line.endswith("\n"):
                self._end()
                return {"error": "it takes too much time or memory", "kind": "limit"}
        result: dict[str, str] = json.loads(line)
        return result

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            self._end()
            self._process = subprocess.Popen(
                # Not with the folder of the file on its path: modules of smelt have names of standard ones.
                [sys.executable, "-P", rendering.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                encoding="utf-8",
            )
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    try:
                        pipe.close()
                    except OSError:
                        pass  # it could not take what was still to be written
            process.wait()

    def __del__(self) -> None:
        self._end()

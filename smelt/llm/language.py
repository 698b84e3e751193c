"""A language model that is ready to be asked: its file, tokenizer, chat template, programs and engine in one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from smelt.errors import ArgumentError
from smelt.llm.constrain import Grammar, Grammars
from smelt.llm.engine import Engine, Event, Figures, Programs, Reason, Request
from smelt.llm.sampling import Choice, Sampling
from smelt.llm.speculate import Draft
from smelt.llm.tools import Form, form_of, grammar

Prompt = str | Sequence[int] | Sequence[Mapping[str, Any]]  # text, tokens, or messages of a chat


class Answer(NamedTuple):
    """What a model wrote."""

    text: str
    choices: tuple[Choice, ...]
    reason: Reason
    figures: Figures

    @property
    def tokens(self) -> list[int]:
        """The tokens of the text."""
        return [choice.token for choice in self.choices]


class LanguageModel:
    """A model with its tokenizer. As a context manager, or until `close`, an engine runs on a thread of its own."""

    def __init__(
        self,
        name: str,
        tokenizer: Any,
        template: Any,
        programs: Programs,
        queue_limit: int = 64,
        speculate: int = 0,
        draft: Draft | None = None,
    ) -> None:
        self.name, self.tokenizer, self.template, self.programs = name, tokenizer, template, programs
        self.engine = Engine(programs, queue_limit, speculate=speculate, draft=draft)
        self.engine.__enter__()

    def __repr__(self) -> str:
        return f"LanguageModel({self.name}, {self.programs.slots} slots of {self.programs.context} tokens)"

    def __enter__(self) -> LanguageModel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all requests, and the engine."""
        self.engine.close()

    def compile(self, report: Callable[[int, int], None] | None = None) -> None:
        """Compile all that requests will run, before the first of them; `report` hears how far it is, of how much."""
        self.engine.compile(report)

    def tokens(self, prompt: Prompt, tools: Sequence[Mapping[str, Any]] = ()) -> list[int]:
        """The tokens of a prompt: of text as it is, of messages (and tools) by the template of the model."""
        if isinstance(prompt, str):
            return list(self.tokenizer.encode(prompt))
        if all(isinstance(part, int) for part in prompt):
            return [part for part in prompt if isinstance(part, int)]
        if self.template is None:
            raise ArgumentError(
                f"{self.name} has no chat template", rule="without one nobody knows how it was taught to chat.",
                hint="Use smelt generate, or /v1/completions.",
            )  # fmt: skip
        messages = [part for part in prompt if isinstance(part, Mapping)]
        return list(self.template.prompt(messages, tools) if tools else self.template.prompt(messages))

    def tool_form(self) -> Form:
        """How the model calls functions; an `ArgumentError` if it was not taught to."""
        return form_of("" if self.template is None else self.template.text)

    def tool_grammar(self, functions: Sequence[Mapping[str, Any]]) -> Grammar:
        """What holds an answer to a call of one of these functions, each with a name and perhaps parameters."""
        return self.grammars.lark(grammar(self.tool_form(), functions, self.tokenizer.control))

    def embed(self, text: str | Sequence[int]) -> NDArray[np.float32]:
        """A vector of length 1 for a text: the mean of what the model makes of its tokens."""
        return self.embedding(text).result()

    def embedding(self, text: str | Sequence[int]) -> Future[NDArray[np.float32]]:
        """What `embed` gives, in its turn; until then it can be cancelled."""
        embed = getattr(self.programs, "embed", None)
        if embed is None:
            raise ArgumentError(f"{self.name} has no embeddings")
        tokens = self.tokens(text)
        self.engine.check_prompt(tokens)
        return self.engine.call(lambda: embed(tokens))

    @functools.cached_property
    def grammars(self) -> Grammars:
        """What makes constraints for answers."""
        return Grammars(self.tokenizer, self.programs.vocabulary)

    def request(
        self,
        prompt: Prompt,
        sampling: Sampling | None = None,
        *,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
        grammar: Grammar | None = None,
        timeout: float | None = None,
        shown: Sequence[str] = (),
        goes_on: bool = False,
    ) -> Request:
        """A request for the engine, whose text ends before any of the strings of `stop`, and where the model ends it
        unless it `goes_on`; control tokens with the names of `shown` are text.
        """
        from smelt.llm.tokens import TextStream

        controls = self.tokenizer.control if shown else {}
        return Request(
            self.tokens(prompt),
            sampling or Sampling(),
            max_tokens,
            frozenset(() if goes_on else self.tokenizer.stops),
            TextStream(self.tokenizer, stop, [controls[name] for name in shown if name in controls]),
            grammar,
            timeout,
        )

    def stream(self, prompt: Prompt, sampling: Sampling | None = None, **options: Any) -> Iterator[Event]:
        """Events of an answer as they come; `options` are those of `request`."""
        return self.engine.stream(self.request(prompt, sampling, **options))

    def generate(self, prompt: Prompt, sampling: Sampling | None = None, **options: Any) -> Answer:
        """A whole answer."""
        request = self.request(prompt, sampling, **options)
        return answered(self.engine, request)

    def chat(self, messages: Prompt, sampling: Sampling | None = None, **options: Any) -> Iterator[str]:
        """Pieces of an answer's text as they come."""
        return (event.text for event in self.stream(messages, sampling, **options) if event.text)


def answered(engine: Engine, request: Request) -> Answer:
    """Run a request to its end."""
    texts, choices = [], []
    reason: Reason | None = None
    import queue

    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    request.deliver = events.put
    handle = engine.submit(request)
    try:
        while reason is None:  # not the handle's: that is known before the last text is told
            event = events.get()
            texts.append(event.text)
            choices += [event.choice] if event.choice is not None else []
            reason = event.reason
            if event.error:
                raise ArgumentError(f"the request failed: {event.error}")
    finally:
        handle.cancel()
    return Answer("".join(texts), tuple(choices), reason, handle.figures)

"""The engine: requests of many users to tokens, by one thread that owns the programs and their cache.

In each step it drops what was cancelled or is late, admits who waits while there are slots, reads one chunk of one
prompt, and gives every running request its next token. Requests join and leave between steps (continuous batching).
Always holds: a request gets the same tokens alone and among others; its pages are free one step after it ended, for
whatever reason; what fails for one request does not reach another; what one owner's prompts have in common with
another's is neither used nor told.
"""

from __future__ import annotations

import contextlib
import math
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

import smelt as sm
from smelt.errors import ArgumentError, BusyError, ContextLengthError, SmeltError
from smelt.llm.pages import Chain, Pages
from smelt.llm.sampling import GREEDY, Choice, Chooser, Sampling, choose
from smelt.llm.speculate import Draft, Guesser, Least, Lookup, Pace

_MAX_PAUSE: Final = 0.05  # seconds that a chunk of somebody's prompt may keep running answers waiting

T = TypeVar("T")
Reason = Literal["stop", "length", "cancelled", "timeout", "error"]


class Programs(Protocol):
    """What the engine runs: compiled steps over a cache of pages. Page 0 is nobody's."""

    slots: int  # texts at once
    context: int  # positions of a text
    page: int  # of a page
    pages: int  # how many there are: for `slots` texts, and page 0
    cache_bytes: int  # what all of them take
    vocabulary: int
    chunks: Sequence[int]  # how many tokens of a prompt are read at once, ascending
    batches: Sequence[int]  # how many rows of logits `extend` gives, ascending

    def read(self, pages: Sequence[int], start: int, tokens: Sequence[int]) -> Any:
        """Read tokens of a text with these pages from position `start` on; the logits behind the last, as one row."""

    def extend(self, rows: Sequence[tuple[Sequence[int], int, int]]) -> Any:
        """Read one token each, as (pages, position, token); a row of logits for each, and perhaps rows behind them."""

    def copy(self, source: int, target: int) -> None:
        """Copy a page onto another one."""

    def reset(self) -> None:
        """Forget all that is in the pages."""

    def parts(self) -> Sequence[Callable[[], Any]]:
        """What compiles all that `read` and `extend` may run, one by one, what is needed first first."""


class Text(Protocol):
    """Tokens to text, whole characters at a time; it holds back what may become a stop string."""

    stopped: str | None

    def feed(self, token: int) -> str: ...
    def close(self) -> str: ...


class Constraint(Protocol):
    """A grammar: the tokens that may come next."""

    def allowed(self) -> NDArray[np.bool_]: ...
    def accept(self, token: int) -> None: ...

    is_done: bool


class Event(NamedTuple):
    """What a request is told: text and the tokens behind it; the last event has a reason."""

    text: str = ""
    choice: Choice | None = None
    reason: Reason | None = None
    error: str = ""


@dataclass
class Figures:
    """What became of a request: tokens, and times by a monotonic clock."""

    prompt_tokens: int
    reused_tokens: int = 0
    tokens: int = 0
    guessed_tokens: int = 0
    right_tokens: int = 0  # of those that were guessed
    submitted: float = 0.0
    started: float = 0.0  # out of the queue
    first: float = 0.0  # its first token
    finished: float = 0.0


def _ignored(event: Event) -> None:
    """Nobody listens."""


@dataclass(eq=False)
class Request:
    """What to generate. `deliver` is called on the engine's thread, and must not wait."""

    prompt: Sequence[int]
    sampling: Sampling = GREEDY
    max_tokens: int | None = None  # None: until the context is full
    stop_tokens: frozenset[int] = frozenset()
    text: Text | None = None
    constraint: Constraint | None = None
    timeout: float | None = None  # seconds from its submission
    owner: str = ""  # whose it is: only what was read for the same owner is used again
    deliver: Callable[[Event], None] = _ignored
    figures: Figures | None = None  # once it is submitted


@dataclass(eq=False)
class Handle:
    """A request that was submitted."""

    request: Request
    chooser: Chooser
    figures: Figures
    chain: Chain | None = None  # once its prompt is being read
    output: list[int] = field(default_factory=list)
    guesser: Guesser | None = None  # of what comes next, where that can be checked
    pace: Pace = field(default_factory=Pace)
    cancelled: bool = False
    reason: Reason | None = None

    def cancel(self) -> None:
        """End it before the next step; it still hears of its end. From any thread, at any time, more than once."""
        self.cancelled = True

    @property
    def unread(self) -> Sequence[int]:
        """Tokens of the prompt that are not in the cache yet."""
        return self.request.prompt[self.chain.length :] if self.chain is not None else self.request.prompt


def piece(count: int, chunks: Sequence[int]) -> int:
    """How many of `count` tokens to read at once, so that not much more than they are computed with padding.

    >>> [piece(count, (8, 32, 128)) for count in (3, 30, 33, 100, 500)]
    [3, 30, 32, 100, 128]
    """
    larger = next((size for size in chunks if count <= size), chunks[-1])
    smaller = max((size for size in chunks if size < count), default=0)
    return min(count, larger) if count * 2 > larger or not smaller else smaller


class Engine:
    """Runs requests. As a context manager it has a thread of its own; without, somebody calls `step`."""

    def __init__(
        self,
        programs: Programs,
        queue_limit: int = 64,
        max_pause: float = _MAX_PAUSE,
        speculate: int = 0,
        draft: Draft | None = None,
    ) -> None:
        self.programs, self.queue_limit, self.max_pause = programs, queue_limit, max_pause
        self.speculate = speculate  # tokens of an answer that are guessed at once, at most
        self.draft = draft  # who guesses; without one, what stood there before does
        self._seconds = Least()  # of a step, by its rows as they are padded
        self._guessing = Least()  # seconds of guessing, by how many tokens
        self.pages = Pages(programs.pages, programs.page, programs.copy)
        self._lost = False  # whether the cache is to be made anew, which may fail as other things do
        self.waiting: deque[Handle] = deque()
        self.running: list[Handle] = []
        self.finished: dict[str, int] = {}  # how many ended, by reason
        self.rejected = 0
        self.done = Figures(0)  # sums over all that ended
        self.on_end: Callable[[Handle], None] = lambda handle: None
        self._rate = 0.0  # tokens of prompts per second, as measured
        self._calls: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closing = False

    def __enter__(self) -> Engine:
        self._thread = threading.Thread(target=self._loop, name="smelt-engine", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- from any thread

    def submit(self, request: Request) -> Handle:
        """Queue a request; `ContextLengthError` if its prompt does not fit, `BusyError` if the queue is full."""
        handle = Handle(request, self._chooser(request), Figures(len(request.prompt), submitted=time.monotonic()))
        with self._wake:
            self.check_room()
            request.figures = handle.figures
            self.waiting.append(handle)
            self._wake.notify()
        return handle

    def stream(self, request: Request) -> Generator[Event, None, None]:
        """Run a request, and give its events as they come; leaving the loop early cancels it."""
        events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        request.deliver = events.put
        handle = self.submit(request)
        try:
            while True:
                event = events.get()
                yield event
                if event.reason is not None:
                    return
        finally:
            handle.cancel()

    def close(self) -> None:
        """End all requests, and the thread."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        for handle in [*self.waiting, *self.running]:
            self._end(handle, "cancelled")
        while self._calls:
            self._calls.popleft()[1].cancel()

    def cancel(self) -> int:
        """End all requests before the next step; how many there were."""
        with self._wake:
            handles = [handle for handle in (*self.waiting, *list(self.running)) if not handle.cancelled]
            for handle in handles:
                handle.cancel()
        return len(handles)

    def check_prompt(self, prompt: Sequence[int]) -> None:
        """Refuse tokens that cannot be read: none, too many, or such that the model does not have."""
        context, vocabulary = self.programs.context, self.programs.vocabulary
        if not prompt:
            raise ArgumentError("the prompt is empty", rule="it has one token at least.")
        if len(prompt) >= context:
            raise ContextLengthError(
                f"the prompt has {len(prompt)} tokens",
                rule=f"prompt and answer share a context of {context}, and the answer needs one at least.",
                hint="Shorten it, or start with a larger --context if the model has one.",
            )
        if not 0 <= min(prompt) <= max(prompt) < vocabulary:
            raise ArgumentError("the prompt has tokens that the model does not have", rule=f"0 to {vocabulary - 1}.")

    def check_room(self, others: int = 0) -> None:
        """`BusyError` if the queue is full, where so many more wait for something else than tokens."""
        with self._wake:
            if self._closing:
                raise BusyError("the engine is closing")
            count = len(self.waiting) + others
            if count >= self.queue_limit:
                self.rejected += 1
                raise BusyError(f"{count} requests are waiting already", hint="Try again in a moment.")

    def _chooser(self, request: Request) -> Chooser:
        self.check_prompt(request.prompt)
        if request.max_tokens is not None and request.max_tokens < 1:
            raise ArgumentError(f"max_tokens is {request.max_tokens}", rule="it is at least 1.")
        return Chooser(request.sampling, request.prompt, self.programs.vocabulary)

    def compile(self, report: Callable[[int, int], None] | None = None) -> None:
        """Compile all programs, those that choose tokens included, before the first request."""
        parts: list[Callable[[], Any]] = list(self.programs.parts())
        parts += [] if self.draft is None else self.draft.programs.parts()
        parts += [partial(self._compile_choices, batch) for batch in self.programs.batches]
        for done, part in enumerate(parts):
            if report is not None:
                report(done, len(parts))
            self.call(part).result()

    def prepare(self) -> None:
        """Compile what a first request needs while nobody waits; it returns at once."""
        first: list[Callable[[], Any]] = [*self.programs.parts()[:2], partial(self._compile_choices, 1)]
        for part in first:
            self.call(part)

    def _compile_choices(self, batch: int) -> None:
        logits = sm.zeros((batch, self.programs.vocabulary), dtype=sm.float32)
        for sampling in (GREEDY, Sampling(top_k=2), Sampling(frequency=1.0, logprobs=0)):
            choose(logits, [Chooser(sampling, [0], self.programs.vocabulary)] + [None] * (batch - 1))

    def call(self, function: Callable[[], T]) -> Future[T]:
        """Run something else on the thread that owns the programs, between two steps."""
        future: Future[T] = Future()
        with self._wake:
            self._calls.append((function, future))
            self._wake.notify()
        return future

    # --- the engine's own thread

    def _loop(self) -> None:
        while True:
            with self._wake:
                while not (self.waiting or self.running or self._calls or self._closing):
                    self._wake.wait()
                if self._closing:
                    return
            self.step()

    def step(self) -> bool:
        """Do a little for everybody; whether there is more to do."""
        if self._calls:
            self._answer(*self._calls.popleft())
        self._drop()
        self._admit()
        try:
            if self._lost:
                self.programs.reset()
                if self.draft is not None:
                    self.draft.programs.reset()
                self._lost = False
            self._read_chunk()
            self._extend()
        except Exception as error:  # what a program leaves of the cache is not known, so all begin anew
            for handle in list(self.running):
                self._end(handle, "error", f"{type(error).__name__}: {error}")
            self.pages.clear()
            self._lost = True
        return bool(self.waiting or self.running or self._calls)

    def _answer(self, function: Callable[[], Any], future: Future[Any]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(function())
        except Exception as error:
            future.set_exception(error)

    def _drop(self) -> None:
        now = time.monotonic()
        with self._wake:
            everybody = [*self.waiting, *self.running]
        for handle in everybody:
            timeout = handle.request.timeout
            if handle.cancelled:
                self._end(handle, "cancelled")
            elif timeout is not None and now - handle.figures.submitted > timeout:
                self._end(handle, "timeout")

    def _admit(self) -> None:
        while self.waiting and len(self.running) < self.programs.slots:
            with self._wake:
                handle = self.waiting.popleft()
            if self.speculate and handle.request.constraint is None and not handle.chooser.adjusts:
                handle.guesser = Lookup() if self.draft is None else self.draft.begin()
                handle.pace = Pace(self.speculate)
            handle.figures.started = time.monotonic()
            self.running.append(handle)

    def _read_chunk(self) -> None:
        """A chunk of the prompt that came first, no longer than running answers can wait for."""
        handle = next((handle for handle in self.running if not handle.output), None)
        if handle is None:
            return
        if handle.chain is None:  # not before its turn: who came first may have read the same
            handle.chain = self.pages.begin(handle.request.prompt, handle.request.owner)
            handle.figures.reused_tokens = handle.chain.length
        chain, unread = handle.chain, handle.unread
        others = any(handle.output for handle in self.running)
        fitting = [size for size in self.programs.chunks if not others or size <= self._rate * self.max_pause]
        size = piece(len(unread), fitting or self.programs.chunks[:1])
        tokens = list(unread[:size])
        began = time.monotonic()
        self.pages.reserve(chain, size)
        logits = self.programs.read(chain.numbers, chain.length, tokens)
        self.pages.append(chain, tokens)
        if len(unread) > size:
            logits.numpy()  # waits, so that the time is that of the work
        else:
            for one in [handle, *self._forked(handle, chain)]:
                self._choose(logits, [one])
        # What is compiled at this moment makes it seem slow, but only until the next chunk.
        self._rate = size / max(time.monotonic() - began, 1e-6)

    def _forked(self, handle: Handle, chain: Chain) -> list[Handle]:
        """Other choices of a prompt that has been read: they begin as copies."""
        asked = handle.request
        alike = [one for one in self.running if one.chain is None and one.request.owner == asked.owner]
        alike = [one for one in alike if list(one.request.prompt) == list(asked.prompt)]
        for one in alike:
            one.chain, one.figures.reused_tokens = self.pages.fork(chain), chain.length
        return alike

    def _extend(self) -> None:
        """One token more for each answer that has begun, and as many of its guesses as are right."""
        handles = [handle for handle in self.running if handle.output]
        if not handles:
            return
        rows: list[tuple[Sequence[int], int, int]] = []
        choosers: list[Chooser] = []
        guesses, drafting = self._guesses(handles)
        for handle, guess in zip(handles, guesses, strict=True):
            assert handle.chain is not None
            self.pages.reserve(handle.chain, 1 + len(guess))
            numbers, place = handle.chain.numbers, handle.chain.length
            rows += [(numbers, place + k, token) for k, token in enumerate((handle.output[-1], *guess))]
            choosers += [handle.chooser, *(handle.chooser.ahead(k + 1) for k in range(len(guess)))]
        began = time.monotonic()
        logits = self.programs.extend(rows)
        owners = [handle for handle, guess in zip(handles, guesses, strict=True) for _ in range(len(guess) + 1)]
        choices = iter(self._choices(logits, owners, choosers))
        self._seconds.note(logits.shape[0], time.monotonic() - began)
        for handle, guess in zip(handles, guesses, strict=True):
            right = self._take(handle, guess, [next(choices) for _ in range(len(guess) + 1)])
            if guess:
                plain = self._seconds.get(self._padded(len(handles)), math.inf)
                cost = (self._seconds[logits.shape[0]] + drafting) / plain
                handle.pace.told(len(guess), right, cost if 0 < cost < math.inf else 1.0)

    def _guesses(self, handles: Sequence[Handle]) -> tuple[list[list[int]], float]:
        """What may come next in each answer, as far as there are rows for it; and the seconds that this takes."""
        room = self.programs.batches[-1] - len(handles)
        found: list[list[int]] = []
        began = time.monotonic()
        for handle in handles:
            left = self.programs.context - len(handle.request.prompt) - len(handle.output) - 1
            if handle.request.max_tokens is not None:
                left = min(left, handle.request.max_tokens - handle.figures.tokens - 1)
            most = 0 if handle.guesser is None else min(handle.pace.ask(), room, left)
            text = [*handle.request.prompt, *handle.output] if most > 0 else []
            guess = handle.guesser.guess(text, most) if handle.guesser is not None and most > 0 else []
            room -= len(guess)
            found.append(guess)
        count = sum(map(len, found))
        if count:
            self._guessing.note(count, time.monotonic() - began)
        return found, self._guessing.get(count, 0.0)

    def _take(self, handle: Handle, guess: Sequence[int], choices: Sequence[Choice | None]) -> int:
        """Accept choices for an answer until one is not what was guessed; how many were."""
        right = 0
        handle.figures.guessed_tokens += len(guess)
        for k, choice in enumerate(choices):
            if choice is None or handle.chain is None:  # it has ended
                break
            self.pages.append(handle.chain, handle.output[-1:])
            if k:
                handle.chooser.accept(choice.token)
                handle.figures.right_tokens += 1
                right = k
            self._accept(handle, choice)
            if k == len(guess) or choice.token != guess[k]:
                break
        return right

    def _padded(self, rows: int) -> int:
        return next(size for size in self.programs.batches if rows <= size)

    def _choose(self, logits: Any, handles: Sequence[Handle]) -> None:
        """Choose a token for each of the first rows."""
        choices = self._choices(logits, handles, [handle.chooser for handle in handles])
        for handle, choice in zip(handles, choices, strict=True):
            if choice is not None:
                self._accept(handle, choice)

    def _choices(self, logits: Any, handles: Sequence[Handle], given: Sequence[Chooser]) -> list[Choice | None]:
        """A token for each of the first rows, by their choosers; none where a grammar fails."""
        choosers: list[Chooser | None] = [*given, *[None] * (logits.shape[0] - len(given))]
        for row, handle in enumerate(handles):
            if handle.request.constraint is not None:
                try:
                    handle.chooser.allowed = handle.request.constraint.allowed()
                except SmeltError as error:
                    self._end(handle, "error", error.told)
                    choosers[row] = None
        return choose(logits, choosers)[: len(handles)]

    def _accept(self, handle: Handle, choice: Choice) -> None:
        """Give a request its next token, and end it if that was the last."""
        request, figures, token = handle.request, handle.figures, choice.token
        figures.first = figures.first or time.monotonic()
        if token in request.stop_tokens:
            self._end(handle, "stop")
            return
        handle.output.append(token)
        figures.tokens += 1
        if request.constraint is not None:
            request.constraint.accept(token)
        text = request.text.feed(token) if request.text is not None else ""
        self._tell(handle, Event(text, choice))
        is_full = len(request.prompt) + len(handle.output) >= self.programs.context
        if (request.text is not None and request.text.stopped is not None) or (
            request.constraint is not None and request.constraint.is_done
        ):
            self._end(handle, "stop")
        elif is_full or figures.tokens == request.max_tokens:
            self._end(handle, "length")

    def _end(self, handle: Handle, reason: Reason, error: str = "") -> None:
        """Let go of all that a request holds, count it, and tell it."""
        with contextlib.suppress(ValueError), self._wake:
            self.waiting.remove(handle)
        if handle in self.running:
            self.running.remove(handle)
        if handle.chain is not None:
            self.pages.release(handle.chain)
            handle.chain = None
        if handle.guesser is not None:
            handle.guesser.close()
            handle.guesser = None
        if handle.reason is not None:
            return
        handle.reason, handle.figures.finished = reason, time.monotonic()
        self.finished[reason] = self.finished.get(reason, 0) + 1
        self.done.prompt_tokens += handle.figures.prompt_tokens
        self.done.reused_tokens += handle.figures.reused_tokens
        self.done.tokens += handle.figures.tokens
        self.done.guessed_tokens += handle.figures.guessed_tokens
        self.done.right_tokens += handle.figures.right_tokens
        self.on_end(handle)
        text = handle.request.text.close() if handle.request.text is not None and reason != "cancelled" else ""
        self._tell(handle, Event(text, None, reason, error))

    def _tell(self, handle: Handle, event: Event) -> None:
        """Whoever cannot be told any more has gone."""
        try:
            handle.request.deliver(event)
        except Exception:
            handle.cancelled = True

"""Answers in OpenAI's shapes: choices, pieces of them in a stream, log-probabilities and usage."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from smelt.llm.engine import Event, Reason
from smelt.llm.sampling import Choice
from smelt.llm.serve.schema import Asked
from smelt.llm.tools import Call, Calls, Form


@dataclass
class Written:
    """What one choice has become so far."""

    text: str = ""
    choices: list[Choice] = field(default_factory=list)
    reason: Reason | None = None


class Shape:
    """How answers to one request look: chat or text, whole or in pieces."""

    def __init__(
        self, asked: Asked, model: str, piece: Callable[[int], bytes], is_chat: bool, form: Form | None = None
    ) -> None:
        self.asked, self.is_chat, self._piece = asked, is_chat, piece
        prefix = "chatcmpl" if is_chat else "cmpl"
        self._head = {"id": f"{prefix}-{uuid.uuid4().hex}", "created": int(time.time()), "model": model}
        self._whole = "chat.completion" if is_chat else "text_completion"
        count = len(asked.prompts) * asked.choices
        self.offsets = [0] * count
        names = [tool["function"]["name"] for tool in asked.tools]
        self._calls = [Calls(form, names) for _ in range(count)] if form is not None else None

    def whole(self, written: Sequence[Written], usage: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request without a stream."""
        choices = []
        for index, one in enumerate(written):
            what: dict[str, Any] = {"text": one.text}
            if self.is_chat:
                what = {"message": {"role": "assistant", "content": one.text, "refusal": None}}
            if self._calls is not None:
                text, calls = self._told(index, one.text, is_over=True)
                said = {"tool_calls": [call.json() for call in calls]} if calls else {}
                what["message"] |= {"content": text if text.strip() or not calls else None, **said}
            logprobs, reason = self._logprobs(one.choices, index), self._reason(index, one.reason)
            choices.append({"index": index, **what, "logprobs": logprobs, "finish_reason": reason})
        return {**self._head, "object": self._whole, "choices": choices, "usage": usage}

    def begin(self, index: int) -> dict[str, Any] | None:
        """The first piece of a choice in a stream; texts have none."""
        return self._chunk(index, {"delta": {"role": "assistant", "content": ""}}, None, None) if self.is_chat else None

    def pieces(self, index: int, event: Event) -> Iterator[dict[str, Any]]:
        """What a choice in a stream is told: text, calls, and why it ended."""
        first = self._calls[index].count if self._calls is not None else 0
        text, calls = self._told(index, event.text, event.reason is not None)
        logprobs = self._logprobs([event.choice] if event.choice else [], index)
        for number, call in enumerate(calls, first):
            yield self._chunk(index, {"delta": {"tool_calls": [{"index": number, **call.json()}]}}, None, None)
        # Text may still be held back; a piece without any is sent if it has something else to say.
        if text or event.reason is not None or self.asked.sampling.logprobs is not None:
            what: dict[str, Any] = {"text": text}
            if self.is_chat:
                what = {"delta": {"content": text} if text or event.reason is None else {}}
            yield self._chunk(index, what, logprobs, self._reason(index, event.reason))

    def _told(self, index: int, text: str, is_over: bool) -> tuple[str, list[Call]]:
        """The text that is no call, and calls."""
        if self._calls is None:
            return text, []
        before = self._calls[index].count
        said, found = self._calls[index].feed(text)
        if is_over:
            rest, more = self._calls[index].close()
            said, found = said + rest, [*found, *more]
        return said, found if self.asked.parallel else found[: 0 if before else 1]

    def _reason(self, index: int, reason: Reason | None) -> str | None:
        has_called = self._calls is not None and self._calls[index].count > 0
        return "tool_calls" if has_called and reason == "stop" else reason

    def usage(self, usage: dict[str, Any]) -> dict[str, Any]:
        """The last piece of a stream, where it was asked for."""
        return {**self._head, "object": self._chunk_kind, "choices": [], "usage": usage}

    @property
    def _chunk_kind(self) -> str:
        return "chat.completion.chunk" if self.is_chat else "text_completion"

    def _chunk(self, index: int, what: dict[str, Any], logprobs: Any, reason: str | None) -> dict[str, Any]:
        choice = {"index": index, **what, "logprobs": logprobs, "finish_reason": reason}
        more: dict[str, Any] = {"usage": None} if self.asked.usage else {}
        return {**self._head, "object": self._chunk_kind, "choices": [choice], **more}

    def _logprobs(self, choices: Sequence[Choice], index: int) -> dict[str, Any] | None:
        if self.asked.sampling.logprobs is None or not choices:
            return None
        if self.is_chat:
            content = [
                self._entry(one.token, one.logprob) | {"top_logprobs": [self._entry(*pair) for pair in one.top]}
                for one in choices
            ]
            return {"content": content, "refusal": None}
        texts = [self._text(one.token) for one in choices]
        offsets = []
        for text in texts:
            offsets.append(self.offsets[index])
            self.offsets[index] += len(text)
        return {
            "tokens": texts,
            "token_logprobs": [one.logprob for one in choices],
            "top_logprobs": [{self._text(token): value for token, value in one.top} for one in choices],
            "text_offset": offsets,
        }

    def _entry(self, token: int, logprob: float | None) -> dict[str, Any]:
        return {"token": self._text(token), "logprob": logprob, "bytes": list(self._piece(token))}

    def _text(self, token: int) -> str:
        return self._piece(token).decode("utf-8", "replace")

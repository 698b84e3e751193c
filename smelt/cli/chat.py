"""`smelt chat`: a conversation with a language model."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from smelt.cli import language
from smelt.cli.options import integer

if TYPE_CHECKING:
    from smelt.llm import LanguageModel, Sampling

_EXAMPLES: Final = """  smelt chat                               with SmolLM2 135M, fetched once: 98 MB
  smelt chat model.gguf --system "Answer in one sentence."
  echo "What is a compiler?" | smelt chat
  smelt chat --random 135m                 without any file; what it says means nothing

Ctrl-C ends an answer, and twice at the prompt the program. /help lists what else can be typed. Through a pipe, the
exit status is 1 if an answer failed.
"""
_HELP: Final = """/system TEXT   what the model should keep in mind; starts anew
/reset         forget the conversation
/stats         how quick the answers were
/help          this
/quit          the end; or /exit, Ctrl-D, Ctrl-C twice"""
_LEAVE: Final = "\n[Ctrl-C once more leaves; so do Ctrl-D and /exit]"


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """What the words of the command say."""
    one = language.parser("chat", "Talk with a language model.", _EXAMPLES)
    language.add_model(one, positional=True)
    one.add_argument("--system", default="", metavar="TEXT", help="what the model should keep in mind")
    one.add_argument("-n", "--tokens", type=integer(1), metavar="N", help="the most tokens of an answer")
    one.add_argument("--stats", action="store_true", help="say after each answer how quick it was, on stderr")
    language.add_sampling(one)
    one.set_defaults(run=main)
    return one.parse_args(words)


def main(arguments: argparse.Namespace) -> int:
    """Read messages from stdin, write answers to stdout, and all else to stderr."""
    is_terminal, failed = sys.stdin.isatty(), False
    sampling = language.sampling_of(arguments)
    with language.opened(arguments) as model:
        chat = Chat(model, sampling, arguments.system, arguments.tokens, arguments.quiet)
        if is_terminal:
            model.engine.prepare()  # while the first message is typed
            print(f"{model.name}: ready. /help lists what can be typed; Ctrl-D ends.", file=sys.stderr)
        for line in _typed() if is_terminal else sys.stdin:
            if not line.strip():
                continue
            if line.startswith("/"):
                if not chat.command(line.strip()):
                    break
                continue
            failed |= not chat.say(line.strip())
            if arguments.stats:
                print(chat.stats(), file=sys.stderr)
    return int(failed and not is_terminal)  # who sits there has seen it


def _typed() -> Iterator[str]:
    """Lines that are typed, until Ctrl-D; Ctrl-C drops what has been typed, and twice is a `KeyboardInterrupt`."""
    was_interrupted = False
    with contextlib.suppress(EOFError):
        while True:
            try:
                line = input("> ")
            except KeyboardInterrupt:
                if was_interrupted:
                    print(file=sys.stderr)
                    raise
                was_interrupted = True
                print(_LEAVE, file=sys.stderr)
                continue
            was_interrupted = False
            yield line


class Chat:
    """A conversation: its messages so far, and what is asked of the model."""

    def __init__(
        self, model: LanguageModel, sampling: Sampling, system: str, tokens: int | None, quiet: bool = False
    ) -> None:
        self.model, self.sampling, self.tokens, self.quiet = model, sampling, tokens, quiet
        self.system = system
        self.messages: list[dict[str, str]] = []
        self.figures: Any = None

    def say(self, text: str) -> bool:
        """Send a message, and print the answer as it comes; Ctrl-C ends it. Whether it did not fail."""
        from smelt.errors import SmeltError

        message = {"role": "user", "content": text}
        first = [{"role": "system", "content": self.system}] if self.system else []
        said: list[str] = []
        failure, request = "", None
        try:
            request = self.model.request([*first, *self.messages, message], self.sampling, max_tokens=self.tokens)
            with contextlib.closing(self.model.engine.stream(request)) as events:
                for event in language.soon(events, quiet=self.quiet):
                    said.append(event.text)
                    print(event.text, end="", flush=True)
                    failure = event.error
        except SmeltError as error:
            print(f"smelt: {error}\n  /reset starts anew.", file=sys.stderr)
            return False
        except KeyboardInterrupt:
            print("\n[the answer was ended]", file=sys.stderr, end="")
        print(flush=True)
        self.figures = request.figures if request is not None else None
        if failure:
            print(f"smelt: the answer failed: {failure}", file=sys.stderr)
            return False
        self.messages += [message, {"role": "assistant", "content": "".join(said)}]
        return True

    def command(self, line: str) -> bool:
        """Do what a line that begins with a slash says; whether to go on."""
        word, _, rest = line.partition(" ")
        if word in ("/quit", "/exit", "/bye"):
            return False
        if word in ("/system", "/reset"):
            self.messages.clear()
            self.system = rest.strip() if word == "/system" else self.system
            print("[a new conversation]", file=sys.stderr)
        elif word == "/stats":
            print(self.stats(), file=sys.stderr)
        else:
            print(_HELP if word == "/help" else f"there is no {word}\n{_HELP}", file=sys.stderr)
        return True

    def stats(self) -> str:
        """How quick the latest answer was."""
        return language.speed_text(self.figures) if self.figures is not None else "nothing has been said yet"

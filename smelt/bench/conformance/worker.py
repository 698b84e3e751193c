"""The process in which cases run: jobs come as lines of JSON on stdin, answers go to the pipe that it is told of."""

from __future__ import annotations

import json
import os
import resource
import sys
from pathlib import Path

from smelt.bench.conformance import files


def main(answers: int, memory: int) -> None:
    """Answer jobs until there are no more. An empty one only asks whether somebody is here."""
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (memory, most))
    with os.fdopen(answers, "w", encoding="utf-8") as out:
        for line in sys.stdin:
            job = json.loads(line)
            found = files.run_file(Path(job["path"]), files.Options(**job["options"])) if job else []
            print(json.dumps([list(result) for result in found]), file=out, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))

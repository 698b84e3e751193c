"""What hostile model files come to: an error that says so, or a model; nothing hangs, crashes, or takes much memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.llm import hostile
from tests.turns import TEST_ALL, TURN

ROOT = Path(__file__).resolve().parents[2]
SHARE = 1 if TEST_ALL else 4  # of which a sampled run takes one
# These are whole models after all, and one would be right to open them.
RIGHT = ("whole", "random ", "general.alignment", "tensor ", "llama.block_count = 3", "llama.context_length = 3")
RIGHT += (
    "llama.attention.layer_norm_rms_epsilon = 0.0",
    "tokenizer.chat_template = ",
    "tokenizer.ggml.model = 'gemma4'",
)
RIGHT += ("tokens of the kind 8", "a template of the kind 8", "tokenizer.ggml.merges = ['a b', 'a b']")


def test_hostile_files_end_in_an_error_or_a_model(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.llm.hostile", str(tmp_path), str(TURN), str(SHARE)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"{done.stdout[-300:]}\n{done.stderr[-3000:]}"
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) >= hostile.COUNT // SHARE
    assert rows[0]["said"] == "loaded"
    for row in rows:
        assert row["megabytes"] < 100, row
        assert row["said"] != "loaded" or row["name"].startswith(RIGHT), row
        assert "InternalError" not in row["said"], row

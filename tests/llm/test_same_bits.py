"""The logits of a whole model have the same bits however a text is read, and on any number of threads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_logits_have_the_same_bits_however_a_text_is_read() -> None:
    """`SMELT_TEST_GGUF` is the file of a model with weights in blocks; random ones do without."""
    model = os.environ.get("SMELT_TEST_GGUF", "random:tiny:q4_1")
    found = {}
    for threads in ("1", "2"):
        command = [sys.executable, "-m", "tests.llm.same_bits", model]
        environment = os.environ | {"SMELT_THREADS": threads}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        for row in map(json.loads, done.stdout.splitlines()):
            found[f"{row['way']}, {threads} threads"] = row["digest"]
    assert len(found) == 12
    assert len(set(found.values())) == 1, found

"""Which files here are read."""

from __future__ import annotations

import os

# They import frameworks, which takes seconds: only where their tests run.
collect_ignore_glob = [] if os.environ.get("SMELT_TEST_PEERS") == "1" else ["test_*.py"]

"""Limits that the cost model does not decide, and why it does not. Each is named once, here."""

from __future__ import annotations

from typing import Final

# A value is kept from phase to phase where computing it again takes more instructions than this. To weigh the two by
# the model, each region would have to be lowered both ways, which doubles the time of scheduling.
KEEP_INSTRUCTIONS: Final = 6

# A result of at least this part of the last-level cache is stored past it. Whether somebody reads it soon, a kernel
# does not know.
STREAM_SHARE: Final = 2

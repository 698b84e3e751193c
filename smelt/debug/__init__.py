"""Takes programs that run; gives where their NaNs come from, their values on the way, and where their time goes.

Always holds: outside of these blocks a program is what it is without them.
"""

from typing import TYPE_CHECKING

from smelt.debug.nans import nans
from smelt.debug.printing import print
from smelt.debug.profiling import Profile, profile
from smelt.names import door

__all__ = ["Profile", "nans", "print", "profile"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = door(__name__, __all__)

"""What a kernel costs: `launch + max(bytes / bandwidth, operations / peak)`, or the measured time where one is known.

Takes a kernel region and a device profile; gives seconds. Always holds: a cost is per kernel, never per op, and asking
for one measures nothing.
"""

from smelt.cost.profile import Profile, profile
from smelt.cost.work import COSTLY, nanoseconds

__all__ = ["COSTLY", "Profile", "nanoseconds", "profile"]

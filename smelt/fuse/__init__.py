"""Takes a rewritten graph; gives kernel regions in an order in which they can run.

Always holds: every root is stored; every stored value is written completely by the regions that name it, before any
region reads it; each region is a pure function of the buffers that it loads.
"""

from smelt.fuse.build import Layout, build_region, contiguous
from smelt.fuse.canonical import name_slots
from smelt.fuse.merge import merge_axes
from smelt.fuse.partition import Group, partition, storable
from smelt.fuse.split import split_reductions

__all__ = [
    "Group",
    "Layout",
    "build_region",
    "contiguous",
    "merge_axes",
    "name_slots",
    "partition",
    "split_reductions",
    "storable",
]

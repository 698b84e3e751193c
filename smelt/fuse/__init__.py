"""Takes a rewritten graph; gives kernel regions in an order in which they can run.

Always holds: every root is stored; every stored value is written completely by the regions that name it, before any
region reads it; each region is a pure function of the buffers that it loads.
"""

from smelt.fuse.alike import signature
from smelt.fuse.build import build_region
from smelt.fuse.canonical import merge_axes, moved, name_slots
from smelt.fuse.choices import NO_CHOICES, Choices, Decision, parse_choices
from smelt.fuse.group import Group
from smelt.fuse.launched import ROUTINES, LoopSizes, Operand, Walk, amount_node, base, loop_sizes, operands
from smelt.fuse.layout import Layout, contiguous
from smelt.fuse.overwrite import overwritable
from smelt.fuse.partition import Partition, partition, storable
from smelt.fuse.passes import Pass, Seen, ready
from smelt.fuse.sites import STEPS, Site, early_sites, late_sites, together

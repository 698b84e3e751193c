"""Neural networks: modules, layers and losses."""

from smelt.nn.containers import ModuleDict, ModuleList, Sequential
from smelt.nn.linear import Linear
from smelt.nn.module import Module

__all__ = ["Linear", "Module", "ModuleDict", "ModuleList", "Sequential"]

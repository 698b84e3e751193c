"""Files in and out. What is read is hostile until every number in it has been checked; what is written is whole."""

from smelt.formats.blocks import BLOCKS, Codes, Packed
from smelt.formats.checked_json import json_object
from smelt.formats.gguf import Gguf, Later, write_gguf
from smelt.formats.huggingface import Folder
from smelt.formats.models import load, save
from smelt.formats.png import save_png
from smelt.formats.safetensors import SafeTensors, write_safetensors
from smelt.formats.whole import write_whole

__all__ = [
    "BLOCKS",
    "Codes",
    "Folder",
    "Gguf",
    "Later",
    "Packed",
    "SafeTensors",
    "json_object",
    "load",
    "save",
    "save_png",
    "write_gguf",
    "write_safetensors",
    "write_whole",
]

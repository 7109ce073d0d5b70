"""What is computed: inputs, the exact result, and how much arithmetic it takes. One file a kind of work."""

import pathlib

from cases.attention import AttentionCase
from cases.encode import EncodeCase
from cases.layer import LayerCase
from cases.varlen import VarlenCase

SHAPES = pathlib.Path(__file__).resolve().parent.parent / "shapes"

# work: (method of an engine, case)
WORKS = {"core": ("attention", AttentionCase), "masks": ("attention", AttentionCase), "varlen": ("varlen", VarlenCase),
         "backward": ("backward", AttentionCase), "decode": ("decode", AttentionCase), "layer": ("layer", LayerCase),
         "encode": ("encode", EncodeCase)}


def shapes_of(work):
    """(name, rest of the line as words) of shapes/<work>.txt."""
    for line in (SHAPES / f"{work}.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, *words = line.split()
            yield name, words

"""Words that arguments of several rooms choose between; no array is needed to declare them."""

from typing import Literal

Missing = Literal["error", "zero", "mean", "drop"]
SelfLoops = Literal["drop", "keep"]

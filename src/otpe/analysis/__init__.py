"""Analysis of networks and gradients: alignment with BPTT, memory, and the loss landscape."""

from otpe.analysis.alignment import Alignment, alignment
from otpe.analysis.cost import StateBytes, state_bytes
from otpe.analysis.landscape import Landscape, Plane, landscape

__all__ = ["Alignment", "Landscape", "Plane", "StateBytes", "alignment", "landscape", "state_bytes"]

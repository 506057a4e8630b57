"""Questions asked of a network and its gradients."""

from otpe.analysis.alignment import Alignment, alignment
from otpe.analysis.cost import StateBytes, state_bytes

__all__ = ["Alignment", "StateBytes", "alignment", "state_bytes"]

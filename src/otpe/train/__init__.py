"""Gradients of a mini-batch, and training online through one."""

from otpe.train.offline import gradients
from otpe.train.online import online_pass

__all__ = ["gradients", "online_pass"]

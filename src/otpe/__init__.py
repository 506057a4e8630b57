"""otpe: online training of spiking neural networks.

    net = otpe.dense([700, 512, 512, 20])
    params = net.init(jax.random.key(0))
    loss, grads = otpe.gradients(net, params, spikes, labels, rule="otpe")

`otpe.rules()` lists the learning rules.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from otpe._front import *  # noqa: F403
else:
    # Names are imported on first use: `import otpe` alone does not import jax, so `otpe --help` is fast.
    from importlib import import_module
    from importlib.util import find_spec

    def __getattr__(name: str) -> Any:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module 'otpe' has no attribute {name!r}")
        if find_spec(f"otpe.{name}"):
            return import_module(f"otpe.{name}")
        front = import_module("otpe._front")
        if not hasattr(front, name):
            raise AttributeError(f"module 'otpe' has no attribute {name!r}")
        globals()[name] = getattr(front, name)  # from now on `__getattr__` is not called for this name
        return globals()[name]

    def __dir__() -> list[str]:
        return sorted({*globals(), *import_module("otpe._front").__all__})

"""Who takes part in `benchmarks/rivals.py`: one module per library, each with `contestants(problem)`."""

from contestants.base import Contestant, Library, Problem

OURS = Library("otpe", module="contestants.ours", package="otpe", install="pip install .")

RIVALS = {
    library.name: library
    for library in (
        Library("jax.grad", "contestants.jax_grad", "jax", "pip install jax"),
        Library("snntorch", "contestants.snn_torch", "snntorch", "pip install torch snntorch==1.0.0"),
        Library("spikingjelly", "contestants.spiking_jelly", "spikingjelly", "pip install spikingjelly==2.0.0"),
        Library("slax", "contestants.slax_rules", "slax", "pip install slax==0.0.1"),
        Library("slax-loop", "contestants.slax_loop", "slax", "pip install slax==0.0.1"),
        Library("braintrace", "contestants.brain_trace", "braintrace", "pip install braintrace==0.2.4"),
    )
}

__all__ = ["OURS", "RIVALS", "Contestant", "Library", "Problem"]

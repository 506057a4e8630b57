"""All tests run with 64-bit numbers available; those that mean float32 say so."""

import jax
from hypothesis import Phase, settings

jax.config.update("jax_enable_x64", True)

# Every new shape is compiled anew: few examples, no deadline, and no shrinking, which would compile for hours.
# Derandomised, so that a red run can be run again.
settings.register_profile(
    "otpe", deadline=None, derandomize=True, max_examples=6, phases=(Phase.explicit, Phase.reuse, Phase.generate)
)
settings.load_profile("otpe")

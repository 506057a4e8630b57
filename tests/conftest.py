"""All tests run with 64-bit numbers available; those that mean float32 say so."""

import os
from importlib import metadata
from pathlib import Path

# The suite compiles thousands of programs and runs each of them once or twice: it takes far less time when XLA tries less
# hard: no fusions by way of MLIR, and no small program cut into parts for several threads. Before jax is imported. XLA ends
# the process, without a word that pytest would show, at a flag it does not know: jaxlib 0.11.1 dropped the last.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true --xla_cpu_parallel_codegen_split_count=1"
    + " --xla_cpu_use_fusion_emitters=false"
    * (tuple(map(int, metadata.version("jaxlib").split(".")[:3])) < (0, 11, 1)),
)

import headless
import jax
import pytest
from hypothesis import Phase, settings

jax.config.update("jax_enable_x64", True)

# Every new shape is compiled anew: few examples, no deadline, and no shrinking, which would compile for hours.
# Derandomised, so that a red run can be run again.
settings.register_profile(
    "otpe", deadline=None, derandomize=True, max_examples=3, phases=(Phase.explicit, Phase.reuse, Phase.generate)
)
settings.load_profile("otpe")


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory):
    """Nothing of the user's is read or written."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTPE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def forget_programs():
    """Thousands of compiled programs add up to more memory maps than Linux allows a process (65,530), and it crashes."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > 15_000:
        jax.clear_caches()


@pytest.fixture
def for_a_gpu():
    """Programs can be made for a GPU where there is none: jax asks which, from 0.12 on."""
    h200 = jax.sharding.AbstractDevice("NVIDIA H200", None, "gpu")
    with jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), (), abstract_device=h200)):
        yield


@pytest.fixture
def browser(tmp_path):
    """One page of a headless browser."""
    if headless.executable() is None:
        pytest.skip(
            "no browser here: none of "
            + ", ".join(headless.NAMES)
            + " is installed. On Debian: apt-get install chromium"
        )
    opened = headless.Browser(tmp_path / "profile")
    yield opened
    opened.close()

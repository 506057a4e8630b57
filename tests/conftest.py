"""All tests run with 64-bit numbers enabled. Tests of float32 ask for it."""

import gc
import os
from importlib import metadata
from pathlib import Path

# The suite compiles thousands of programs and runs each of them once or twice. It takes far less time when XLA optimises less:
# no MLIR fusions, and no small programs split over threads. The flags must be set before jax is imported. XLA ends
# the process at an unknown flag, without a message that pytest shows. jaxlib 0.11.1 removed the last flag.
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
gc.set_threshold(50_000, 20, 20)  # tracing makes many objects: fewer collections save a tenth of the processor time

# Every new shape is compiled: so there are few examples, no deadline, and no shrinking (it would compile for hours).
# Derandomised, so that a failing run can be repeated.
settings.register_profile(
    "otpe", deadline=None, derandomize=True, max_examples=3, phases=(Phase.explicit, Phase.reuse, Phase.generate)
)
settings.load_profile("otpe")


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory):
    """Use a temporary cache, so that the user's files are neither read nor written."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTPE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def forget_programs():
    """Clear compiled programs: thousands need more memory maps than Linux allows a process (65,530), which crashes it."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > 15_000:
        jax.clear_caches()


@pytest.fixture
def for_a_gpu():
    """Compile for a GPU on a machine without one: jax 0.12 and later need the kind of GPU."""
    h200 = jax.sharding.AbstractDevice("NVIDIA H200", None, "gpu")
    with jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), (), abstract_device=h200)):
        yield


@pytest.fixture
def browser(tmp_path):
    """Return one page of a headless browser."""
    if headless.executable() is None:
        pytest.skip(
            "no browser here: none of "
            + ", ".join(headless.NAMES)
            + " is installed. On Debian: apt-get install chromium"
        )
    opened = headless.Browser(tmp_path / "profile")
    yield opened
    opened.close()

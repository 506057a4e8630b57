"""Names that other libraries have for our settings, for error messages. This module does not import jax."""

from collections.abc import Collection

SYNONYMS = {
    "lr": "learning_rate",
    "step_size": "learning_rate",
    "batch_size": "batch",
    "bs": "batch",
    "minibatch_size": "batch",
    "lr_scheduler": "schedule",
    "scheduler": "schedule",
    "lr_schedule": "schedule",
    "warmup_steps": "warmup",
    "n_hidden": "hidden",
    "num_hidden": "hidden",
    "hidden_size": "hidden",
    "hidden_sizes": "hidden",
    "hidden_dim": "hidden",
    "layers": "hidden",
    "num_classes": "classes",
    "n_classes": "classes",
    "n_inputs": "units",
    "num_inputs": "units",
    "input_size": "units",
    "num_steps": "steps",
    "max_iter": "steps",
    "iterations": "steps",
    "n_steps": "steps",
    "opt": "optimizer",
    "optim": "optimizer",
    "criterion": "loss",
    "loss_fn": "loss",
    "beta": "leak",
    "decay": "leak",
    "v_threshold": "threshold",
    "vth": "threshold",
    "spike_grad": "surrogate",
    "grad_clip": "clip",
    "max_norm": "clip",
    "wd": "weight_decay",
    "num_seeds": "seeds",
    "random_state": "seed",
    "random_seed": "seed",
    "data_dir": "root",
    "data_root": "root",
    "data_path": "root",
    "output_dir": "out",
    "out_dir": "out",
    "log_dir": "out",
    "save_dir": "out",
    "n_bins": "bins",
    "timesteps": "time_steps",
}
EPOCHS = ("epochs", "epoch", "n_epochs", "num_epochs", "max_epochs")
DEVICES = ("device", "gpu", "cuda", "accelerator")


def advice(name: str, known: Collection[str], *, option: bool = False) -> str | None:
    """Return a sentence that names our setting for this name of another library. None if there is no such setting.

    `known`: the settings that there are. `option`: write settings as options of the command line.
    """

    def shown(setting: str) -> str:
        return f"--{setting.replace('_', '-')}" if option else setting

    if name in known:
        return None
    if name in EPOCHS and {"steps", "batch"} <= {*known}:
        return (
            f"{shown(name)} is {shown('steps')} here, counted in mini-batches: an epoch has as many as training"
            f" recordings / {shown('batch')}. Data that is drawn anew has no epochs."
        )
    if name in DEVICES and "learning_rate" in known:
        return f"{shown(name)} is no setting: JAX takes a GPU where there is one. Set JAX_PLATFORMS=cpu to use none."
    ours = SYNONYMS.get(name)
    return f"{shown(name)} is {shown(ours)} here." if ours is not None and ours in known else None

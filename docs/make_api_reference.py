"""Write the pages of the API reference from docstrings: `python docs/make_api_reference.py`.

Every public name is on exactly one page. A name without a page, or without a docstring, is an error.
"""

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

# Page, title, introduction, and the names on it: "module" for all that its __all__ lists and no other page has.
PAGES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "networks": (
        "Networks",
        "Build a network, run it, save it.",
        ("network", "dense", "Network", "save", "load_network", "predict", "accuracy"),
    ),
    "neurons": (
        "Neurons and surrogates",
        "What a layer does with its currents.",
        ("LIF", "CubaLIF", "AdaptiveLIF", "LeakyIntegrator", "Uniform", "PerNeuron", "spike", "fast_sigmoid",
         "superspike", "arctan", "triangular", "gaussian"),
    ),
    "layers": ("Linear maps", "What takes spikes to currents.", ("Dense", "DenseLayer", "LinearMap", "layers")),
    "learning": (
        "Gradients and online learning",
        "The functions that compute gradients and updates by any rule.",
        ("gradients", "online_pass", "Optimizer", "stepper", "StreamLearner", "Learned", "Loss", "alignment",
         "Alignment", "landscape", "Landscape", "state_bytes"),
    ),
    "rules": (
        "Rules",
        "Named rules, and the parts to compose your own from.",
        ("rules", "rule", "Rule", "Bptt", "Rtrl", "Ostl", "Ottt", "Otpe", "Approx"),
    ),
    "runs": (
        "Runs and studies",
        "Training into a folder, and studies made of such runs. The [command line](../cli.md) has the same settings.",
        ("train", "TrainConfig", "Result", "load", "Splits", "evaluate", "Evaluation",
         "compare", "CompareConfig", "align", "AlignConfig",
         "Along", "train_landscape", "LandscapeConfig", "PathsInPlane", "read_snapshot",
         "sweep", "SweepConfig", "SweepResult", "reproduce", "ReproduceConfig", "report",
         "StreamConfig"),
    ),
    "stream": (
        "Streams",
        "What you need for your own loop over a stream: `otpe.stream`.",
        ("stream", "stream.worlds"),
    ),
    "datasets": ("Datasets", "Labelled spikes: `otpe.datasets`.", ("datasets",)),
    "testing": ("Checks for parts of your own", "`otpe.testing`.", ("testing",)),
}  # fmt: skip
MODULES = ("datasets", "layers", "stream", "stream.worlds", "testing")
ORDINARY = (object, tuple, dict, list, str, int, float, Exception)


class UndocumentedError(Exception):
    """A public name has no docstring, or is on no page."""


def pages() -> Iterator[tuple[str, str]]:
    """Yield the file name and the text of each page."""
    import otpe

    public = set(otpe._front.__all__)
    listed = [name for _, _, names in PAGES.values() for name in names]
    if missing := sorted(public - set(listed)):
        raise UndocumentedError(
            f"no page of the API reference has {', '.join(missing)}: add them to PAGES in {__file__}"
        )
    front = {id(getattr(otpe, name)) for name in listed if name not in MODULES}
    for page, (title, introduction, names) in PAGES.items():
        parts = [f"# {title}\n\n{introduction}\n"]
        for name in names:
            if name not in MODULES:
                parts.append(described("otpe", name, getattr(otpe, name)))
                continue
            module = import_module(f"otpe.{name}")
            parts.append(_text(module) + "\n")
            for inner in module.__all__:
                is_elsewhere = id(getattr(module, inner)) in front or f"{name}.{inner}" in MODULES
                if not is_elsewhere and not _is_private_use(module, inner):
                    parts.append(described(f"otpe.{name}", inner, getattr(module, inner)))
        yield f"{page}.md", "\n".join(parts)


def described(module: str, name: str, thing: Any) -> str:
    """Return the Markdown of a function, a class with its methods, or a value."""
    heading = f"## `{module}.{name}`\n"
    if not callable(thing):
        return f"{heading}\n````{{py:data}} {name}\n:module: {module}\n\n{_entries(thing)}\n````\n"
    kind = "class" if inspect.isclass(thing) else "function"
    lines = [heading, f"``````{{py:{kind}}} {name}{_signature(thing)}", f":module: {module}", "", _text(thing), ""]
    if kind == "class":
        for method_name, method in _methods(thing):
            what = "property" if isinstance(method, property) else "method"
            signature = "" if what == "property" else _signature(method, drop_self=True)
            lines += [f"`````{{py:{what}}} {method_name}{signature}", "", _text(method), "`````", ""]
    return "\n".join([*lines, "``````", ""])


def _entries(value: Any) -> str:
    """What a registry holds."""
    return f"A {type(value).__name__}: {', '.join(f'`{entry}`' for entry in value)}."


def _methods(kind: type) -> Iterator[tuple[str, Any]]:
    """The documented public methods and properties that the class itself or a base class of ours defines."""
    for name, member in inspect.getmembers(kind):
        owner = next((base for base in kind.__mro__ if name in vars(base)), object)
        if name.startswith("_") or not (owner.__module__ or "").startswith("otpe"):
            continue
        member = inspect.getattr_static(kind, name)
        if isinstance(member, staticmethod | classmethod):
            member = member.__func__
        if (inspect.isfunction(member) or isinstance(member, property)) and inspect.getdoc(member):
            yield name, member


def _signature(thing: Any, drop_self: bool = False) -> str:
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return "()"
    parameters = list(signature.parameters.values())
    if drop_self and parameters and parameters[0].name in ("self", "cls"):
        parameters = parameters[1:]
    parameters = [p.replace(annotation=inspect.Parameter.empty, default=_shown(p.default)) for p in parameters]
    return str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))


class _Words:
    """A default value as it is written in code."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _shown(default: Any) -> Any:
    if default is inspect.Parameter.empty:
        return default
    text = repr(default)
    if callable(default) and hasattr(default, "__name__"):
        text = default.__name__
    return _Words(re.sub(r"<(?:function |class ')?([\w.]+).*?>", r"\1", text))


def _is_private_use(module: Any, name: str) -> bool:
    """Whether the name is for the library's own modules: functions that drivers call on a map."""
    return module.__name__ == "otpe.layers" and name in getattr(module, "INTERNAL", ())


def _text(thing: Any) -> str:
    """The docstring, which is Markdown."""
    text = inspect.getdoc(thing) or ""
    if inspect.isclass(thing) and text.startswith(f"{thing.__name__}("):  # dataclasses and named tuples get a signature
        text = ""
    if not text and inspect.isclass(thing):  # a rule is described on top of its file
        above = import_module(thing.__module__).__doc__ or ""
        text = above if re.search(r"^Exact ", above, re.MULTILINE) else ""
    if not text:
        name = getattr(thing, "__qualname__", getattr(thing, "fget", thing))
        raise UndocumentedError(f"{name} in {getattr(thing, '__module__', '?')} is public and has no docstring")
    text = re.sub(r"^@\w+\{.*?\}\}$", r"```bibtex\n\g<0>\n```", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(
        r"^(Args|Returns|Raises|Attributes):\n((?:[ \t]+.*\n?|\n(?=[ \t]))+)", _list, text, flags=re.MULTILINE
    )


def _list(section: re.Match[str]) -> str:
    """A section of arguments or results as a Markdown list."""
    title, body = section.group(1), inspect.cleandoc("\n" + section.group(2))
    if title == "Returns":
        return f"**Returns** {body}\n"
    body = re.sub(r"^(\*{0,2}[\w.]+(?:, [\w.]+)*): ", r"- `\1`: ", body, flags=re.MULTILINE)
    body = re.sub(r"^ +", "  ", body, flags=re.MULTILINE)  # lines that go on belong to their item
    return f"**{'Arguments' if title == 'Args' else title}**\n\n{body}\n"


def write(folder: Path) -> None:
    """Write all pages into this folder. Files that are up to date are not touched."""
    folder.mkdir(parents=True, exist_ok=True)
    made = dict(pages())
    toc = "\n".join(page.removesuffix(".md") for page in made)
    made["index.md"] = f"# API reference\n\nEvery public name, from its docstring.\n\n```{{toctree}}\n{toc}\n```\n"
    for name, text in made.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(__file__).parent / "reference" / "api")

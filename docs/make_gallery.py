"""Run the examples, and write their pages: `python docs/make_gallery.py`, or with the names of some of them.

Each example prints numbers and draws a picture. Both are saved in docs/gallery and docs/figures/gallery, with the
measured processor time, so that a build of the site runs no example. `--pages` writes only the pages.
"""

import argparse
import ast
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples"
PAGES, PICTURES = HERE / "gallery", HERE / "figures" / "gallery"
TIMES = PAGES / "seconds.json"
TITLES = {
    "01_alignment": "How close is each rule to BPTT?",
    "02_data": "A training loop of your own",
    "03_protocols": "What makes Randman hard",
    "04_randman": "Train with several rules, compare them",
    "05_landscape": "The loss landscape around training",
    "06_drift": "A world that changes",
    "07_event_vision": "Event vision with convolutions",
}
FURTHER = {  # pages to read next
    "01_alignment": "[Choosing a rule](../concepts/choosing-a-rule.md)",
    "02_data": "[Use rules in your own loop](../how-to/use-rules-in-your-own-loop.md)",
    "03_protocols": "[Load data](../how-to/load-data.md)",
    "04_randman": "[Train and resume](../how-to/train-and-resume.md), and the"
    " [results of the long runs](../results/randman.md)",
    "05_landscape": "[Study a rule](../how-to/study-a-rule.md)",
    "06_drift": "[Learning from a stream](../how-to/learn-from-a-stream.md), and the"
    " [results of the long runs](../results/drift.md)",
    "07_event_vision": "[Bring your own network](../how-to/bring-your-own-network.md), and the"
    " [results of the long runs](../results/event-vision.md)",
}


INDEX = """# Gallery

Small programs, one idea each. Every program prints its numbers, draws its picture, and takes less than a minute on 2
cores. The code is in the folder `examples` of the repository. With the option `--long`, some of them make the numbers
of the results pages.

:::::{{container}} gallery
{cards}
:::::

```{{toctree}}
:hidden:
{toc}
```
"""
PAGE = """# {title}

{summary}

![{summary}](../figures/gallery/{name}.png)

{rest}

**Next:** {further}.

## What it prints

```{{literalinclude}} {name}.txt
:language: text
```

The program took {seconds:.0f} seconds of processor time. On an idle machine it takes at most as long, and less where
two cores share the work.

## The code

`examples/{name}.py`:

```{{literalinclude}} ../../examples/{name}.py
:language: python
```
"""
CARD = """
::::{{container}} card
[![{title}](../figures/gallery/{name}.png)]({name}.md)

[**{title}**]({name}.md)

{summary}
::::
"""


def names() -> list[str]:
    return sorted(path.stem for path in EXAMPLES.glob("[0-9]*.py"))


def run(name: str) -> float:
    """Run an example, keep its output and picture, and return its processor time in seconds."""
    picture = PICTURES / f"{name}.png"
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), "--figure", str(picture)]
    with_path = {**os.environ, "PYTHONPATH": str(HERE.parent / "src")}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:  # for its runs: one that is there would be resumed
        done = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, encoding="utf-8", check=True, env=with_path, cwd=folder
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    (PAGES / f"{name}.txt").write_text(done.stdout.strip("\n") + "\n", encoding="utf-8")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def pages() -> dict[str, str]:
    """Return the texts of the index and of the page of each example, by file name."""
    times = seconds()
    made = {f"{name}.md": page(name, times[name]) for name in names()}
    cards = "\n".join(card(name) for name in names())
    made["index.md"] = INDEX.format(cards=cards, toc="\n".join(names()))
    return made


def seconds() -> dict[str, float]:
    """Return the measured processor time of each example."""
    return json.loads(TIMES.read_text(encoding="utf-8"))["processor_seconds"] if TIMES.exists() else {}


def page(name: str, seconds: float) -> str:
    summary, rest = docstring(name)
    return PAGE.format(
        name=name, title=TITLES[name], summary=summary, rest=rest, seconds=seconds, further=FURTHER[name]
    )


def card(name: str) -> str:
    """Return the entry of an example in the index: a small picture, a link and a sentence."""
    return CARD.format(name=name, title=TITLES[name], summary=docstring(name)[0])


def docstring(name: str) -> tuple[str, str]:
    """Return the first sentence of an example, and the rest of its docstring."""
    text = ast.get_docstring(ast.parse((EXAMPLES / f"{name}.py").read_text(encoding="utf-8"))) or ""
    summary, _, rest = text.partition("\n\n")
    return summary.replace("\n", " "), rest


def write(only_pages: bool, chosen: list[str]) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    times = seconds()
    for name in [] if only_pages else chosen or names():
        times[name] = round(run(name), 1)
        print(f"{name:20} {times[name]:6.1f} s of processor time", flush=True)
        machine = f"{os.cpu_count()} {platform.machine()} cores"
        record = {"machine": machine, "processor_seconds": dict(sorted(times.items()))}
        TIMES.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    for name, text in pages().items():
        (PAGES / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*names(), []], help="examples to run. Without any: all")
    parser.add_argument("--pages", action="store_true", help="write the pages, and run nothing")
    args = parser.parse_args()
    write(args.pages, args.names)

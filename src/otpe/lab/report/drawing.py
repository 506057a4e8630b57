"""Figures as SVG, PNG and CSV files, and their panels as SVG for a page, in the colours and the font of the page."""

import html
import io
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
from matplotlib.figure import Figure as Canvas
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D

from otpe import files
from otpe.lab.report.content import Figure
from otpe.lab.report.palette import GREY, TEXT, Look
from otpe.lab.report.panels import Panel, Point, Scale, dashes, tooltips

FONT = "DejaVu Sans"  # comes with matplotlib
ACROSS = 3  # panels in a row, at most
WIDEST = 13.0  # inches of a row
POINTS = 72  # of SVG, in an inch
STYLE: Any = {
    "svg.fonttype": "none", "font.family": FONT, "font.size": 9, "axes.titlesize": 10,
    "axes.labelsize": 9, "axes.linewidth": 0.7, "axes.unicode_minus": True, "figure.facecolor": "white",
    "axes.facecolor": "none", "xtick.major.width": 0.7, "ytick.major.width": 0.7, "axes.titlelocation": "left",
    "axes.formatter.limits": (-4, 5), "axes.formatter.use_mathtext": False,
}  # fmt: skip
HEAD = re.compile(r"^.*?(?=<svg)|<metadata>.*?</metadata>|<defs>\s*<style.*?</style>\s*</defs>", re.DOTALL)


class Inline(NamedTuple):
    """A panel for a page."""

    svg: str
    width: float  # in points, the units of the SVG
    tooltips: list[Point]  # at places in the same units


def draw(figure: Figure, folder: Path) -> list[Path]:
    """Write NAME.svg, NAME.png and NAME.csv, and return their paths."""
    stem = _stem(figure.name)
    made = {folder / f"{stem}.{kind}": content for kind, content in contents(figure).items()}
    for path, content in made.items():
        files.write_atomically(path, content)
    return list(made)


def contents(figure: Figure) -> dict[str, str | bytes]:
    """Return the contents of the files of a figure, by the ending of their names."""
    canvas, salt = _whole(figure), _stem(figure.name)
    white = r'\1\n <rect width="100%" height="100%" fill="#ffffff"/>'
    svg = re.sub(r"(<svg [^>]*>)", white, _saved_svg(canvas, salt), count=1)
    return {"svg": svg, "png": _saved(canvas, "png", salt), "csv": figure.csv()}


def png(figure: Figure) -> bytes:
    return _saved(_whole(figure), "png", figure.name)


def inlines(figure: Figure) -> list[Inline]:
    """Return every panel by itself, without the legend, so that a page can arrange them."""
    looks, scale, made = figure.legend(), _scale(figure.panels), []
    for i, panel in enumerate(figure.panels):
        canvas, name = _canvas([panel], looks, scale, legend=False), f"{_stem(figure.name)}-{i}"
        svg = _for_page(_saved_svg(canvas, name), name, html.escape(panel.title))
        made.append(Inline(svg, canvas.get_figwidth() * POINTS, _tooltips(canvas, panel)))
    return made


def _stem(name: str) -> str:
    """Return a name that is safe for files and anchors."""
    return re.sub(r"[^\w.-]+", "-", name).strip(".-") or "figure"


# --------------------
# Drawing with matplotlib.


def _scale(panels: Sequence[Panel]) -> Scale:
    """Return the smallest and the largest coloured value of all panels, so that a colour has one meaning."""
    values = [value for panel in panels for value in panel.coloured() if math.isfinite(value)]
    return (min(values), max(values)) if values else (0.0, 1.0)


def _whole(figure: Figure) -> Canvas:
    return _canvas(figure.panels, figure.legend(), _scale(figure.panels))


def _canvas(panels: Sequence[Panel], looks: dict[str, Look], scale: Scale, legend: bool = True) -> Canvas:
    """Return a figure of matplotlib: panels in rows, and one legend below them."""
    with matplotlib.rc_context(STYLE):
        sizes = [panel.size() for panel in panels] or [(4.0, 3.0)]
        width, height = (max(side) for side in zip(*sizes, strict=True))
        most = max(1, min(ACROSS, int(WIDEST // width)))
        down = max(1, -(-len(panels) // most))
        across = max(1, -(-len(panels) // down))  # rows of equal length if possible: four panels are two and two
        columns = max(1, int(across * width / 2.2))  # of the legend
        below = 0.25 * -(-len(looks) // columns) if legend else 0
        room = ConstrainedLayoutEngine(w_pad=0.06, h_pad=0.06)
        canvas = Canvas(figsize=(across * width, down * height + below), layout=room)
        grid = canvas.subplots(down, across, squeeze=False).ravel()
        for axes, panel in zip(grid, panels, strict=False):
            _draw_panel(panel, axes, looks, scale)
        for axes in grid[len(panels) :]:
            axes.remove()
        if legend and looks:
            handles = [
                Line2D(
                    [], [], color=look.colour, linestyle=dashes(look), marker=look.marker, label=look.name, linewidth=2
                )
                for look in looks.values()
            ]
            columns = min(len(handles), columns)
            canvas.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False)
        return canvas


def _draw_panel(panel: Panel, axes: Any, looks: dict[str, Look], scale: Scale) -> None:
    axes.set_title(panel.title, parse_math=False)
    axes.spines[["top", "right"]].set_visible(False)
    if panel.is_empty():
        axes.text(0.5, 0.5, "no data", transform=axes.transAxes, ha="center", va="center", color=GREY)
        axes.set(xticks=[], yticks=[])
        return
    panel.draw(axes, looks, scale)
    axes.set_xlabel(getattr(panel, "x", ""), parse_math=False)
    axes.set_ylabel(getattr(panel, "y", ""), parse_math=False)


def _tooltips(canvas: Canvas, panel: Panel) -> list[Point]:
    """Return the tooltips of a panel at their places in its SVG, whose y points down."""
    (axes,), high, series = canvas.axes, canvas.get_figheight() * POINTS, panel.series()
    low, top = sorted(axes.get_ylim())
    found = []
    for point in tooltips(panel):
        if low <= point.at[1] <= top:
            x, y = axes.transData.transform(point.at) * POINTS / canvas.dpi
            name = point.series if point.series in series else ""
            found.append(point._replace(series=name, at=(round(float(x), 1), round(float(high - y), 1))))
    return found


# --------------------
# SVG.


def _saved(canvas: Canvas, kind: str, salt: str) -> bytes:
    buffer = io.BytesIO()
    metadata: dict[str, Any] = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
    colour = "none" if kind == "svg" else "white"
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": salt}):
        canvas.savefig(buffer, format=kind, dpi=150, metadata=metadata, facecolor=colour)
    return buffer.getvalue()


def _saved_svg(canvas: Canvas, salt: str) -> str:
    """Return SVG that uses the reader's font. It was laid out in a wide font, so that text in other fonts fits."""
    svg = _saved(canvas, "svg", salt).decode()
    return svg.replace(f"'{FONT}'", "system-ui, -apple-system, 'Segoe UI', sans-serif")


def _for_page(svg: str, name: str, label: str) -> str:
    """Let the page set the width and the colour of the text. Every id begins with `name`, so it is unique."""
    svg = HEAD.sub("", svg).strip()
    used = set(re.findall(r"(?:href=\"|url\()#([\w.-]+)", svg))
    svg = re.sub(r' id="([\w.-]+)"', lambda found: f' id="{name}-{found[1]}"' if found[1] in used else "", svg)
    svg = re.sub(r"(href=\"|url\()#", rf"\g<1>#{name}-", svg)
    svg = re.sub(r'(<svg [^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg [^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r' xmlns(:xlink)?="[^"]*"| version="1.1"', "", svg)
    svg = re.sub(r"\n\s*", "\n", svg.replace("xlink:href", "href").replace(TEXT, "currentColor"))
    return svg.replace("<svg ", f'<svg role="img" aria-label="{label}" fill="currentColor" ', 1)

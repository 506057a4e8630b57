"""SVG as a page needs it: many on one page, in its colours and its font."""

import html
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
from matplotlib.figure import Figure as Canvas
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D

from otpe import files
from otpe.lab.report import numbers, panels
from otpe.lab.report.content import Figure, Panel
from otpe.lab.report.palette import TEXT, Look

FONT = "DejaVu Sans"  # comes with matplotlib
HEAD = re.compile(r"^.*?(?=<svg)|<metadata>.*?</metadata>|<defs>\s*<style.*?</style>\s*</defs>", re.DOTALL)


def alone(svg: str) -> str:
    """For a file of its own: on white, in the font of whoever looks at it."""
    page = r'\1\n <rect width="100%" height="100%" fill="#ffffff"/>'
    return re.sub(r"(<svg [^>]*>)", page, _font(svg), count=1)


def inline(svg: str, name: str, label: str) -> str:
    """For a page: it is as wide as there is room, black is the colour of the text, and no id is there twice."""
    svg = HEAD.sub("", _font(svg)).strip()
    used = set(re.findall(r"(?:href=\"|url\()#([\w.-]+)", svg))
    svg = re.sub(r' id="([\w.-]+)"', lambda found: f' id="{name}-{found[1]}"' if found[1] in used else "", svg)
    svg = re.sub(r"(href=\"|url\()#", rf"\g<1>#{name}-", svg)
    svg = re.sub(r'(<svg [^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg [^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r' xmlns(:xlink)?="[^"]*"| version="1.1"', "", svg)
    svg = re.sub(r"\n\s*", "\n", svg.replace("xlink:href", "href").replace(TEXT, "currentColor"))
    return svg.replace("<svg ", f'<svg role="img" aria-label="{label}" fill="currentColor" ', 1)


def _font(svg: str) -> str:
    """What was laid out in a wide font, so that it fits in any, is shown in the reader's own."""
    return svg.replace(f"'{FONT}'", "system-ui, -apple-system, 'Segoe UI', sans-serif")


# --------------------
# Figures as files, and as parts of a page.


ACROSS = 3  # panels in a row, at most
WIDEST = 13.0  # inches of a row
POINTS = 72  # of SVG, in an inch
STYLE: Any = {
    "svg.fonttype": "none", "font.family": FONT, "font.size": 9, "axes.titlesize": 10,
    "axes.labelsize": 9, "axes.linewidth": 0.7, "axes.unicode_minus": True, "figure.facecolor": "white",
    "axes.facecolor": "none", "xtick.major.width": 0.7, "ytick.major.width": 0.7, "axes.titlelocation": "left",
    "axes.formatter.limits": (-4, 5), "axes.formatter.use_mathtext": False,
}  # fmt: skip


class Hover(NamedTuple):
    """A place that can be pointed at, in the picture's own units."""

    series: str
    x: float
    y: float
    text: str


class Inline(NamedTuple):
    """A panel for a page."""

    svg: str
    width: float  # in its own units, points
    hovers: list[Hover]


def draw(figure: Figure, folder: Path) -> list[Path]:
    """Write the picture as NAME.svg and NAME.png and its numbers as NAME.csv, each whole or not at all."""
    paths = []
    for kind, content in contents(figure).items():
        paths.append(folder / f"{stem_of(figure.name)}.{kind}")
        files.write_atomically(paths[-1], content)
    return paths


def contents(figure: Figure) -> dict[str, str | bytes]:
    """What the files of a figure hold, by how their names end."""
    canvas, salt = _whole(figure), stem_of(figure.name)
    picture = alone(_saved(canvas, "svg", salt).decode())
    return {"svg": picture, "png": _saved(canvas, "png", salt), "csv": numbers.table(figure)}


def png(figure: Figure) -> bytes:
    """The picture alone."""
    return _saved(_whole(figure), "png", figure.name)


def _whole(figure: Figure) -> Canvas:
    return _canvas(figure.panels, numbers.legend(figure), panels.heat_range(figure.panels))


def stem_of(name: str) -> str:
    """A name that is safe for files and anchors."""
    return re.sub(r"[^\w.-]+", "-", name).strip(".-") or "figure"


def inlines(figure: Figure) -> list[Inline]:
    """Every panel by itself, so that a page may put them beside or below each other. The legend is the page's."""
    looks, colours = numbers.legend(figure), panels.heat_range(figure.panels)
    stem, made = stem_of(figure.name), []
    for i, panel in enumerate(figure.panels):
        canvas, name = _canvas([panel], looks, colours, legend=False), f"{stem}-{i}"
        text = inline(_saved(canvas, "svg", name).decode(), name, html.escape(panel.title))
        made.append(Inline(text, canvas.get_figwidth() * POINTS, _hovers(canvas, panel)))
    return made


def _canvas(
    shown: Sequence[Panel], looks: panels.Looks, colours: tuple[float, float] | None, legend: bool = True
) -> Canvas:
    """A figure of matplotlib's: panels in rows, and one legend below them."""
    with matplotlib.rc_context(STYLE):
        width = max((panels.size(panel)[0] for panel in shown), default=4)
        height = max((panels.size(panel)[1] for panel in shown), default=3)
        most = max(1, min(ACROSS, int(WIDEST // width)))
        down = max(1, -(-len(shown) // most))
        across = max(1, -(-len(shown) // down))  # rows as even as can be: four panels are two and two
        below = 0.25 * -(-len(looks) // max(1, int(across * width / 2.2))) if legend else 0
        room = ConstrainedLayoutEngine(w_pad=0.06, h_pad=0.06)
        canvas = Canvas(figsize=(across * width, down * height + below), layout=room)
        grid = canvas.subplots(down, across, squeeze=False).ravel()
        for axes, panel in zip(grid, shown, strict=False):
            panels.draw(panel, axes, looks, colours)
        for axes in grid[len(shown) :]:
            axes.remove()
        if legend and looks:
            handles = [_handle(look) for look in looks.values()]
            columns = max(1, min(len(handles), int(across * width / 2.2)))
            canvas.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False)
        return canvas


def _handle(look: Look) -> Line2D:
    style = panels.DASHES if look.dashed else "-"
    return Line2D([], [], color=look.colour, linestyle=style, label=look.name, linewidth=2.2)


def _saved(canvas: Canvas, kind: str, salt: str) -> bytes:
    buffer = io.BytesIO()
    metadata: dict[str, Any] = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
    colour = "none" if kind == "svg" else "white"
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": salt}):
        canvas.savefig(buffer, format=kind, dpi=150, metadata=metadata, facecolor=colour)
    return buffer.getvalue()


def _hovers(canvas: Canvas, panel: Panel) -> list[Hover]:
    """Where the spots of a panel are in its SVG, whose y points down."""
    (axes,), high = canvas.axes, canvas.get_figheight() * POINTS
    low, top = sorted(axes.get_ylim())
    found = []
    for spot in numbers.spots(panel):
        if low <= spot.y <= top:
            x, y = axes.transData.transform((spot.x, spot.y)) * POINTS / canvas.dpi
            found.append(Hover(spot.series, round(float(x), 1), round(float(high - y), 1), spot.text))
    return found

"""SVG as a page needs it: many on one page, in its colours and its font."""

import re

from otpe.charts.look import TEXT

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

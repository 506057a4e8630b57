"""The keys of a legend on the page: a piece of the line with its marker, as SVG. The markers are matplotlib's."""

from otpe.lab.report.palette import Look

WIDE, HIGH = 28, 12
SHAPES = {  # points around the middle, in pixels
    "s": "-4,-4 4,-4 4,4 -4,4",
    "D": "0,-5 5,0 0,5 -5,0",
    "d": "0,-5 3,0 0,5 -3,0",
    "^": "0,-5 5,4 -5,4",
    "v": "0,5 5,-4 -5,-4",
    "<": "-5,0 4,-5 4,5",
    ">": "5,0 -4,-5 -4,5",
    "p": "0,-5 4.8,-1.5 2.9,4 -2.9,4 -4.8,-1.5",
    "h": "0,-5 4.3,-2.5 4.3,2.5 0,5 -4.3,2.5 -4.3,-2.5",
    "P": "-1.7,-5 1.7,-5 1.7,-1.7 5,-1.7 5,1.7 1.7,1.7 1.7,5 -1.7,5 -1.7,1.7 -5,1.7 -5,-1.7 -1.7,-1.7",
    "X": "-5,-2.6 -2.6,-5 0,-2.4 2.6,-5 5,-2.6 2.4,0 5,2.6 2.6,5 0,2.4 -2.6,5 -5,2.6 -2.4,0",
}


def key(look: Look) -> str:
    """Return the key of a line as SVG."""
    x, y = WIDE / 2, HIGH / 2
    dash = ' stroke-dasharray="5 2.5"' if look.dashed else ""
    line = f'<path d="M0 {y:g}H{WIDE}" stroke="{look.css}" stroke-width="2"{dash}/>'
    shape = f'<polygon points="{SHAPES[look.marker]}"' if look.marker in SHAPES else '<circle r="4"'
    marker = f'{shape} fill="{look.css}" transform="translate({x:g} {y:g})"/>'
    return f'<svg width="{WIDE}" height="{HIGH}" viewBox="0 0 {WIDE} {HIGH}" aria-hidden="true">{line}{marker}</svg>'

"""Formulas as MathML, which browsers draw themselves: a page needs no script and no other host for them."""

from docutils.nodes import SkipNode
from latex2mathml.converter import convert


def as_mathml(formula: str, display: str) -> str:
    """Return a formula as MathML. latex2mathml knows `align*`, and takes the marks of `aligned` for text."""
    converted = convert(formula.replace("{aligned}", "{align*}"), display=display)
    if "<mi>&</mi>" in converted or "<mi>\\" in converted:
        raise ValueError(f"latex2mathml does not know a part of this formula: {formula}")
    return converted


def inline(writer, node):
    writer.body.append(as_mathml(node.astext(), "inline"))
    raise SkipNode


def block(writer, node):
    writer.body.append(f'<div class="math">{as_mathml(node.astext(), "block")}</div>')
    raise SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    app.config.html_math_renderer = "mathml"
    return {"parallel_read_safe": True}

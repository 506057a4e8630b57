"""Formulas as MathML, which browsers draw themselves: a page needs no script and no other host for them."""

from latex2mathml.converter import convert


def inline(writer, node):
    writer.body.append(convert(node.astext()))
    raise_skip()


def block(writer, node):
    number = node.get("number")
    label = f'<span class="eqno">({number})</span>' if number else ""
    writer.body.append(f'<div class="math">{label}{convert(node.astext(), display="block")}</div>')
    raise_skip()


def raise_skip():
    from docutils.nodes import SkipNode

    raise SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    app.config.html_math_renderer = "mathml"
    return {"parallel_read_safe": True}

"""HTML documents from Jinja2 templates. Each contains its style and script, and a policy forbids any other."""

import html
import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from otpe.lab.report import palette

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).parent / "templates"
TAG = re.compile(r"<([A-Za-z][\w:-]*)([^>]*)>")  # the values of attributes contain no ">", since it is escaped
ATTRIBUTE = re.compile(r'\s([\w:-]+)="([^"]*)"')


class Document(NamedTuple):
    html: str
    policy: str


def environment(folder: Path = TEMPLATES, **functions: Any) -> "Environment":
    """Return the templates of this folder. They escape every value. `functions` are available in them as filters."""
    import jinja2  # here, so that the command line starts fast

    loader = jinja2.FileSystemLoader([folder, TEMPLATES])
    undefined = jinja2.StrictUndefined
    made = jinja2.Environment(loader=loader, autoescape=True, undefined=undefined, trim_blocks=True, lstrip_blocks=True)
    made.filters.update(functions)
    return made


def document(templates: "Environment", name: str, *directives: str, styles: str = "", **content: Any) -> Document:
    """Return the document of NAME.html.j2, with NAME.css, NAME.js, and light and dark colours from the palette.

    `styles` are further styles, and `directives` further parts of the policy.
    """

    def source(file: str) -> str:
        return templates.loader.get_source(templates, file)[0]  # type: ignore[union-attr]

    theme = templates.get_template("theme.css.j2").render(light=palette.LIGHT, dark=palette.DARK)
    css, js = theme + source(f"{name}.css") + styles, source("theme.js") + source(f"{name}.js")
    allowed = policy(css, js, *directives)
    page = templates.get_template(f"{name}.html.j2").render(css=css, js=js, policy=allowed, **content)
    return Document(page.encode(errors="replace").decode(), allowed)  # half a character becomes a question mark


def policy(style: str, script: str, *more: str) -> str:
    """Return a Content-Security-Policy that only allows this <style> and this <script>, identified by their hashes.

    `more` are further directives, such as "connect-src 'self'". Attributes such as style= and onclick= are not allowed.
    """
    parts = (f"style-src {_hash(style)}", f"script-src {_hash(script)}", "img-src data:")
    return "; ".join(("default-src 'none'", *parts, "base-uri 'none'", "form-action 'none'", *more))


def without_styles(body: str) -> tuple[str, str]:
    """Replace every style="..." attribute by a class. Returns the HTML and the style sheet of these classes."""
    names: dict[str, str] = {}

    def replaced(tag: re.Match[str]) -> str:
        attributes = dict(ATTRIBUTE.findall(tag[2]))
        if "style" not in attributes:
            return tag[0]
        name = names.setdefault(html.unescape(attributes["style"]).strip(), f"s{len(names)}")
        others = ATTRIBUTE.sub(lambda part: "" if part[1] in ("style", "class") else part[0], tag[2])
        return f'<{tag[1]} class="{" ".join([*attributes.get("class", "").split(), name])}"{others}>'

    return TAG.sub(replaced, body), "".join(f".{name} {{ {style} }}\n" for style, name in names.items())


def _hash(content: str) -> str:
    return f"'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'"

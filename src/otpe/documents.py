"""HTML documents that contain their style and script, and a policy that stops browsers from running anything else."""

import html
import re
from base64 import b64encode
from hashlib import sha256

TAG = re.compile(r"<([A-Za-z][\w:-]*)([^>]*)>")  # the values of attributes contain no ">", since it is escaped
ATTRIBUTE = re.compile(r'\s([\w:-]+)="([^"]*)"')


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

"""HTML documents with their style and script inside, and the policy by which a browser runs nothing else in them."""

import html
import re
from base64 import b64encode
from hashlib import sha256

TAG = re.compile(r"<([A-Za-z][\w:-]*)([^>]*)>")  # in values of attributes, > is escaped
ATTRIBUTE = re.compile(r'\s([\w:-]+)="([^"]*)"')


def policy(style: str, script: str, *more: str) -> str:
    """A Content-Security-Policy that allows this one <style> and this one <script>, named by their hashes.

    `more`: what else is allowed, such as "connect-src 'self'". Attributes such as style= and onclick= are not.
    """
    parts = (f"style-src {_hash(style)}", f"script-src {_hash(script)}", "img-src data:")
    return "; ".join(("default-src 'none'", *parts, "base-uri 'none'", "form-action 'none'", *more))


def without_styles(body: str) -> tuple[str, str]:
    """The same HTML with a class in place of every style="..." attribute, and the style sheet of these classes."""
    names: dict[str, str] = {}

    def replaced(tag: re.Match[str]) -> str:
        given = dict(ATTRIBUTE.findall(tag[2]))
        if "style" not in given:
            return tag[0]
        name = names.setdefault(html.unescape(given["style"]).strip(), f"s{len(names)}")
        others = ATTRIBUTE.sub(lambda part: "" if part[1] in ("style", "class") else part[0], tag[2])
        return f'<{tag[1]} class="{" ".join([*given.get("class", "").split(), name])}"{others}>'

    return TAG.sub(replaced, body), "".join(f".{name} {{ {style} }}\n" for style, name in names.items())


def _hash(content: str) -> str:
    return f"'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'"

"""HTML documents with their style and script inside, and the policy by which a browser runs nothing else in them."""

from base64 import b64encode
from hashlib import sha256


def policy(style: str, script: str, *more: str) -> str:
    """A Content-Security-Policy that allows this one <style> and this one <script>, named by their hashes.

    `more`: what else is allowed, such as "connect-src 'self'". Attributes such as style= and onclick= are not.
    """
    parts = (f"style-src {_hash(style)}", f"script-src {_hash(script)}", "img-src data:")
    return "; ".join(("default-src 'none'", *parts, "base-uri 'none'", "form-action 'none'", *more))


def _hash(content: str) -> str:
    return f"'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'"

# SPDX-License-Identifier: GPL-2.0-only
"""What the pictures for documents have in common: they need nothing else, and follow the reader's
choice of light or dark.
"""

from html import escape

_TEXT = """\
text { font: 13px sans-serif; fill: #24292f; }
.head { font-weight: bold; }
.small { font-size: 12px; fill: #57606a; }
.end { text-anchor: end; }
.middle { text-anchor: middle; }
"""
_DARK_TEXT = """\
  text { fill: #e6edf3; }
  .small { fill: #9198a1; }
"""
SMALL_CHAR_W = 6.6  # of text of class "small", about


def style(light: str, dark: str, always: str = "") -> str:
    """A style sheet for text() and more. `dark`: what differs. `always`: comes last, for both."""
    return f"\n{_TEXT}{light}@media (prefers-color-scheme: dark) {{\n{_DARK_TEXT}{dark}}}\n{always}"


def opening(width: float, height: float, title: str, sheet: str) -> str:
    """How a picture begins, which ends with </svg>."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img" '
        f'aria-labelledby="title"><title id="title">{escape(title)}</title>'
        f"<style>{sheet}</style>"
    )


def text(x: float, y: float, said: str, kind: str) -> str:
    """A line of text. `kind`: its classes, of head, small, end, middle and the sheet's own."""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:g}">{escape(said)}</text>'

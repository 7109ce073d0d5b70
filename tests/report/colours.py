"""Colours as the page should have them: from the variables of page.css alone, with arithmetic of our own."""

import math
import pathlib
import re

CSS = pathlib.Path(__file__).parents[2] / "src" / "report" / "page" / "page.css"


def variables(theme):
    """The variables of a theme: {name: text}."""
    block = re.search(r'\[data-theme="%s"\]\s*\{(.*?)\}' % theme, CSS.read_text(encoding="utf-8"), re.S).group(1)
    return dict(re.findall(r"--([\w-]+):\s*([^;]+);", block))


def channels(colour):
    """[r, g, b] of #rrggbb or rgb(r,g,b)."""
    if colour.startswith("#"):
        return [int(colour[at:at + 2], 16) for at in (1, 3, 5)]
    return [int(float(part)) for part in re.findall(r"[\d.]+", colour)[:3]]


def shade(w, most, scale="root", theme="light"):
    """The colour of a weight where `most` is darkest."""
    stops = [channels(stop) for stop in variables(theme)["ramp"].split()]
    share = min(1, w / most)
    at = (math.sqrt(share) if scale == "root" else share) * (len(stops) - 1)
    left = min(int(at), len(stops) - 2)
    return [a + (b - a) * (at - left) for a, b in zip(stops[left], stops[left + 1])]


def alike(a, b, within=2.5):
    """A ramp of 256 steps is off by less than two in each channel."""
    return max(abs(x - y) for x, y in zip(a, b)) <= within


def luminance(rgb):
    """Relative luminance of WCAG 2.2."""
    linear = [c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def over(top, alpha, below):
    return [alpha * t + (1 - alpha) * b for t, b in zip(top, below)]

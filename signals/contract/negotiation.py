"""Which clients get the contract as a page (contract, section 4)."""

import re

PAGE, XHTML = "text/html", "application/xhtml+xml"
# From the most specific range to the least: the first one that a client names gives the weight.
JSON_RANGES = ("application/json", "application/*", "*/*")
# Some clients leave out the zero before the point.
_WEIGHT = re.compile(r"0?\.\d{1,3}|0\.?|1(\.0{0,3})?", re.ASCII)


def prefers_page(accept: str) -> bool:
    """Says whether an ``Accept`` header prefers HTML to JSON and names XHTML too.

    Browsers name XHTML. Libraries that also put HTML first, such as Java's, do not: they get JSON.
    """
    weights = _weights(accept)
    json = next((weights[name] for name in JSON_RANGES if name in weights), 0.0)
    return weights.get(XHTML, 0.0) > 0 and weights.get(PAGE, 0.0) > json


def _weights(accept: str) -> dict[str, float]:
    """Returns the weight of each media range. A malformed weight makes the header say nothing."""
    found = {}
    for part in accept.lower().split(","):
        name, *parameters = (text.strip() for text in part.split(";"))
        named = (parameter.partition("=") for parameter in parameters)
        weight = next((value.strip() for key, _, value in named if key.strip() == "q"), "1")
        if not _WEIGHT.fullmatch(weight):
            return {}
        found[name] = float(weight)
    return found

"""Reads the ``Accept`` header: how much a client wants each media range."""

import re

# Some clients leave out the zero before the point.
_WEIGHT = re.compile(r"0?\.\d{1,3}|0\.?|1(\.0{0,3})?", re.ASCII)
# From the most specific range to the least: the first one that a client names gives the weight.
JSON_RANGES = ("application/json", "application/*", "*/*")


def media_weights(accept: str) -> dict[str, float]:
    """The weight of each media range. A malformed weight makes the header say nothing."""
    found = {}
    for part in accept.lower().split(","):
        name, *parameters = (text.strip() for text in part.split(";"))
        named = (parameter.partition("=") for parameter in parameters)
        weight = next((value.strip() for key, _, value in named if key.strip() == "q"), "1")
        if not _WEIGHT.fullmatch(weight):
            return {}
        found[name] = float(weight)
    return found


def json_weight(weights: dict[str, float]) -> float:
    """The weight of JSON among ``media_weights``; 0 if the client does not accept it."""
    return next((weights[name] for name in JSON_RANGES if name in weights), 0.0)

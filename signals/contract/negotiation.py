"""Which clients get the contract as a page (contract, section 4)."""

from events.http.accept import json_weight, media_weights

PAGE, XHTML = "text/html", "application/xhtml+xml"


def prefers_page(accept: str) -> bool:
    """Says whether an ``Accept`` header prefers HTML to JSON and names XHTML too.

    Browsers name XHTML. Libraries that also put HTML first, such as Java's, do not: they get JSON.
    """
    weights = media_weights(accept)
    return weights.get(XHTML, 0.0) > 0 and weights.get(PAGE, 0.0) > json_weight(weights)

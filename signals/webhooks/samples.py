"""Code that receives deliveries, verifies them and answers tests, to be pasted."""

from signals.contract.samples import Sample, plain_text

# The placeholder for a secret whose text is no longer known.
SECRET = "whsec_…"  # noqa: S105 - a placeholder

LANGUAGES = (
    ("Python", "pip install standardwebhooks", "python.py"),
    ("Node", "18 or newer, no packages", "node.js"),
    ("PHP", "8 or newer, no packages", "php.php"),
    ("Go", "1.19 or newer, no packages", "go.go"),
)


def receivers(secret: str = SECRET) -> list[Sample]:
    """A receiver in each language, behind your own web server with HTTPS."""
    return [
        Sample(language, needs, plain_text(f"webhooks/receivers/{file}", secret=secret))
        for language, needs, file in LANGUAGES
    ]

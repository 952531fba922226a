"""Hides from a service what the tests have installed and an installation has not.

structlog, Django REST framework, Django and the client of Redis import these packages wherever they
find them, which took a fifth of the start of each process.
"""

import os
import sys

HIDDEN = ["rich", "jinja2", "pygments"]
if not os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
    HIDDEN += ["opentelemetry", "requests"]  # of requirements/telemetry.txt

sys.modules.update(dict.fromkeys(HIDDEN))  # type: ignore[arg-type]  # importing it fails

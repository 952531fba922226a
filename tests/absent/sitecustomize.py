"""Hides from a service what the tests have installed and an installation has not.

structlog imports rich wherever it finds it, which took a tenth of the start of each process.
"""

import sys

sys.modules["rich"] = None  # type: ignore[assignment]  # importing it fails

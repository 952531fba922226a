"""The product's settings as ``tests.server`` serves them: all as it is, but kept apart.

Servers that run beside each other collect static files into folders of their own, so that no two
write to one, and share nothing of what they cache.
"""

import os
from pathlib import Path

from config.settings import *  # noqa: F403
from config.settings import CACHES

STATIC_ROOT = Path(os.environ["STATIC_ROOT"])
CACHES["default"]["KEY_PREFIX"] = os.environ["CACHE_PREFIX"]

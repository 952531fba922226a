"""The settings of the servers that ``tests.server`` starts.

They are the product's settings, with a separate folder for static files and a separate cache prefix
for each run, so that servers that run at the same time do not share either.
"""

import os
from pathlib import Path

from config.settings import *  # noqa: F403
from config.settings import CACHES

STATIC_ROOT = Path(os.environ["STATIC_ROOT"])
CACHES["default"]["KEY_PREFIX"] = os.environ["CACHE_PREFIX"]

"""The settings of the servers that ``tests.server`` starts.

They are the product's settings, with a separate folder for static files and a separate cache prefix
for each run, so that servers that run at the same time do not share either. With PATIENCE they wait
as long as a busy machine needs (``tests.patience``), take the second factor's code of half a minute
ago, and hash passwords with less work (``tests.quick_hashing``). A standby may be MOST_BEHIND
seconds behind.
"""

import os
from pathlib import Path

from config.settings import *  # noqa: F403
from config.settings import CACHES, DATABASES, INSTALLED_APPS
from tests import patience

STATIC_ROOT = Path(os.environ["STATIC_ROOT"])
CACHES["default"]["KEY_PREFIX"] = os.environ["CACHE_PREFIX"]

if os.environ.get("PATIENCE"):
    INSTALLED_APPS.append(patience.APP)
    patience.lengthen(DATABASES["default"], CACHES["default"])
    PASSWORD_HASHERS = ["tests.quick_hashing.PasswordHasher"]
    MFA_TOTP_TOLERANCE = 1  # a code may end between the look at the clock and the answer

if behind := os.environ.get("MOST_BEHIND"):
    from config.replica import patroni

    patroni.MOST_BEHIND = float(behind)

"""What each process of ``tests.processes`` needs, imported once, in the process they are forks of.

It opens no connection and starts no thread.
"""

import os

os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"

import django

django.setup()

import pytest  # noqa: E402, F401
import time_machine  # noqa: E402, F401

import config.urls  # noqa: E402, F401
import tests.client  # noqa: E402
import tests.factories  # noqa: E402, F401

#!/usr/bin/env python
"""Django's command line."""

import gc
import os
import sys

import django
from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line
from django.db import OperationalError

# Static files are public. Files that other commands write, such as an SQLite database, are readable
# by this user only.
UMASK = 0o022 if "collectstatic" in sys.argv[1:2] else 0o077

if __name__ == "__main__":
    os.umask(UMASK)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    # Hardly anything is garbage while the apps load: to look for it took a third of the start.
    gc.disable()
    try:
        if not any(each.startswith(("--settings", "--pythonpath")) for each in sys.argv):
            django.setup()
        gc.freeze()  # the collector skips what is loaded, also when the command exits
        gc.enable()
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as fault:
        sys.exit(f"Invalid settings: {fault}")
    except OperationalError as fault:
        print(f"The database is unavailable: {str(fault).splitlines()[0]}", file=sys.stderr)
        sys.exit(2)

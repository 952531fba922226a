"""The service is fit to be deployed as it comes."""

import os
import secrets
import subprocess
import sys

import pytest

from config.environment import ROOT

pytestmark = pytest.mark.once


def test_the_deployment_check_finds_nothing():
    key = secrets.token_hex(32)
    done = subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"],
        cwd=ROOT,
        env={
            "PATH": os.environ["PATH"],
            "ENV_FILE": os.devnull,
            "BASE_URL": "https://signals.example",
            "SECRET_KEY": key,
            "TOKEN_KEYS": key,
            "SECRET_KEYS": key,
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr

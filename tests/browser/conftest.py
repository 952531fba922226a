"""Expectations about pages wait as long as a slow machine needs, as actions on pages do."""

from playwright.sync_api import expect

expect.set_options(timeout=60_000)

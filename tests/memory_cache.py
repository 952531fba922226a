"""The cache of the test suite: in memory, and JSON only like the service's own cache."""

import json
from typing import Any

from django.core.cache.backends.base import DEFAULT_TIMEOUT
from django.core.cache.backends.locmem import LocMemCache

from config.caches import read_json


class JSONMemoryCache(LocMemCache):
    def add(self, key: str, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: Any = None) -> Any:
        return super().add(key, json.dumps(value), timeout, version)

    def set(self, key: str, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: Any = None) -> Any:
        super().set(key, json.dumps(value), timeout, version)

    def get(self, key: str, default: Any = None, version: Any = None) -> Any:
        return read_json(super().get(key, None, version), default)

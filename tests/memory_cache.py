"""The cache of the test suite: in memory, and JSON only like the service's own cache."""

from typing import Any

from django.core.cache.backends.base import DEFAULT_TIMEOUT
from django.core.cache.backends.locmem import LocMemCache

from config.caches import JSONSerializer

JSON = JSONSerializer()


class JSONMemoryCache(LocMemCache):
    def add(self, key: str, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: Any = None) -> Any:
        return super().add(key, JSON.dumps(value), timeout, version)

    def set(self, key: str, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: Any = None) -> Any:
        super().set(key, JSON.dumps(value), timeout, version)

    def get(self, key: str, default: Any = None, version: Any = None) -> Any:
        text = super().get(key, None, version)
        return default if text is None else JSON.loads(text)

"""Database work of the runner: in a few threads, because its event loop must not wait."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from django.db import DatabaseError, InterfaceError, connection

Given = ParamSpec("Given")
Found = TypeVar("Found")


class DatabaseThreads:
    """Calls functions in threads that keep a connection each.

    One that rarely works gives its connection back each time. It would not notice that the server
    has closed it meanwhile; the pool does.
    """

    def __init__(self, count: int, name: str, *, is_rare: bool = False) -> None:
        self._pool = ThreadPoolExecutor(count, thread_name_prefix=name)
        self._is_rare = is_rare

    async def __call__(
        self, function: Callable[Given, Found], *args: Given.args, **kwargs: Given.kwargs
    ) -> Found:
        """Calls the function and returns its result. What it does is one piece of work."""

        def run() -> Found:
            try:
                return function(*args, **kwargs)
            except (DatabaseError, InterfaceError):
                connection.close()  # the next piece of work opens another
                raise
            finally:
                if self._is_rare:
                    connection.close()

        return await asyncio.get_running_loop().run_in_executor(self._pool, run)


# Reading many pages must not hold up leases, nor what was delivered. Nor must turns at the log:
# they wait for its lock, and many endpoints may end at once.
in_database = DatabaseThreads(2, "delivery-writer")
read_database = DatabaseThreads(2, "delivery-reader")
tell_log = DatabaseThreads(1, "delivery-log", is_rare=True)
follow_log = DatabaseThreads(1, "delivery-news")

"""The hasher of passwords for the services that tests start: the service's own, with less work.

A sign-in would take 70 ms of processor time, mostly for memory. Drills and benchmarks keep that, as
they keep the limits of ``tests.patience``.
"""

from config.accounts import hashing


class PasswordHasher(hashing.PasswordHasher):
    memory_cost = 8  # KiB, the least that Argon2 takes

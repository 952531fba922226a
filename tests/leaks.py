"""Everything that a running service stores, as one text: tables, sessions, cache and log."""

from tests.server import Server, manage

# Bytes are printed in hex. Sessions are decoded.
DUMP = """
from django.contrib.sessions.models import Session
from django.conf import settings
from django.core.cache import cache
from django.db import connection
def plain(value):
    return bytes(value).hex() if isinstance(value, (bytes, memoryview)) else repr(value)
with connection.cursor() as cursor:
    for table in connection.introspection.table_names(cursor):
        cursor.execute("SELECT * FROM " + connection.ops.quote_name(table))
        for row in cursor.fetchall():
            print(table, *map(plain, row))
for session in Session.objects.all():
    print("session", session.get_decoded())
for url in {settings.LIMITS_URL, settings.CACHES["default"].get("LOCATION", "")}:
    if str(url).startswith("redis"):
        import redis
        store = redis.Redis.from_url(url)
        for key in store.scan_iter():
            kind = store.type(key)
            read = {b"string": store.get, b"hash": store.hgetall,
                    b"list": lambda key: store.lrange(key, 0, -1),
                    b"zset": lambda key: store.zrange(key, 0, -1)}[kind]
            print("redis", key, read(key))
"""


def dump_storage(server: Server) -> str:
    """The contents of a running server's database, cache, limits' store and log."""
    return manage(server, "shell", "--no-imports", "-c", DUMP) + server.log.read_text()

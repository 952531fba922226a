"""Starts the live server: ``python -m config.live``, which ``make live`` runs."""

import logging
import os
import sys

from django.core.exceptions import ImproperlyConfigured

# Files that the service writes, such as an SQLite database, are readable by this user only.
os.umask(0o077)


def main() -> None:
    try:
        from config import settings  # noqa: PLC0415 - reads the settings
        from config.environment import refuse_public  # noqa: PLC0415

        refuse_public([settings.HOST], settings.TRUSTED_PROXIES)
    except ImproperlyConfigured as fault:
        sys.exit(f"Invalid settings: {fault}")
    if settings.REPLICA:
        settings.DATABASES.update(default=settings.REPLICA, primary=settings.DATABASES["default"])
        settings.DATABASE_ROUTERS.append("config.replica.router.Router")
    # Sets Django up, with the databases above. The collector does not look at what that loads.
    from config import wsgi  # noqa: F401, PLC0415
    from config.live import server  # noqa: PLC0415 - needs the models

    try:
        server.serve(settings.HOST, settings.LIVE_PORT)
        logging.shutdown()
        os._exit(0)  # does not wait for threads that a database without an answer holds
    except OSError as error:
        number = error.errno or 0
        why = os.strerror(number) if number > 0 else "unknown name"
        sys.exit(f"It cannot listen at {settings.HOST}, port {settings.LIVE_PORT}: {why}.")


if __name__ == "__main__":
    main()

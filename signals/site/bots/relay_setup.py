"""Everything that a trader copies to run a relay: settings, unit, web server, check, alert.

The relay's programs are ``static/relay.py`` and ``static/relay.worker.js``.
"""

from base64 import urlsafe_b64encode
from dataclasses import dataclass
from string import Template

from django.conf import settings
from django.templatetags.static import static
from django.urls import reverse
from django.utils.crypto import salted_hmac

from desks.models import Automation

EXAMPLE_HOST = "relay.example.com"
PATH_BYTES = 24

# Each text by its name. The secret stays blank: the trader pastes it.
_TEXTS = {
    "install": """\
sudo install -d -m 755 /opt/relay
sudo curl -fsSo /opt/relay/relay.py '@program'
sudo install -m 600 /dev/null /opt/relay/relay.env
sudoedit /opt/relay/relay.env""",
    "settings": """\
RELAY_SECRET=
RELAY_HOOK=@hook
RELAY_PATH=@path
RELAY_URL=https://@host
RELAY_LISTEN=127.0.0.1:8080
RELAY_PROXY=127.0.0.1""",
    "start": "sudo python3 -I /opt/relay/relay.py --settings /opt/relay/relay.env",
    "unit": """\
[Unit]
Description=Relay for chart alerts
Wants=network-online.target
After=network-online.target

[Service]
EnvironmentFile=/opt/relay/relay.env
ExecStart=/usr/bin/python3 -I /opt/relay/relay.py
Restart=always
DynamicUser=yes
CapabilityBoundingSet=
NoNewPrivileges=yes
PrivateDevices=yes
PrivateTmp=yes
ProtectHome=yes
ProtectSystem=strict
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
SystemCallFilter=@@system-service

[Install]
WantedBy=multi-user.target""",
    "enable": "sudo systemctl enable --now relay",
    "container": """\
sudo docker run --detach --name relay --restart always --network host \\
  --read-only --cap-drop ALL --user 65534:65534 --env-file /opt/relay/relay.env \\
  --volume /opt/relay/relay.py:/relay.py:ro python:3-slim python -I /relay.py""",
    "caddy": """\
@host {
    handle @path {
        reverse_proxy 127.0.0.1:8080
    }
    handle {
        respond 404
    }
}""",
    "nginx": """\
server {
    listen 443 ssl;
    server_name @host;
    ssl_certificate /etc/letsencrypt/live/@host/fullchain.pem;
    ssl_certificate_key /etc/letsencrypt/live/@host/privkey.pem;
    access_log off;

    location = @path {
        proxy_pass http://127.0.0.1:8080;
        proxy_set_header X-Forwarded-For $remote_addr;
        client_max_body_size 64k;
    }
    location / {
        return 404;
    }
}""",
    "check": """\
sudo python3 -I /opt/relay/relay.py --settings /opt/relay/relay.env --check <<'END'
@message
END""",
    "variables": """\
RELAY_SECRET=
RELAY_HOOK=@hook
RELAY_PATH=@path
RELAY_URL=https://@host""",
    "check_worker": """\
curl -fsSo relay.py '@program'
python3 -I relay.py --settings relay.env --check <<'END'
@message
END""",
    "webhook": "https://@host@path",
}


class _Text(Template):
    """A template with ``@name`` placeholders, since nginx and the shell use the dollar sign."""

    delimiter = "@"


@dataclass(frozen=True, slots=True)
class RelaySetup:
    """The texts by name, and the relay's host name."""

    host: str
    texts: dict[str, str]


def relay_setup(bot: Automation, host: str, message: str) -> RelaySetup:
    """The texts for a relay at this host name. ``message`` is the one that its check sends."""
    values = {
        "host": host,
        "path": relay_path(bot),
        "hook": settings.BASE_URL + reverse("hook"),
        "program": settings.BASE_URL + static("relay.py"),
        "message": message,
    }
    texts = {name: _Text(text).substitute(values) for name, text in _TEXTS.items()}
    return RelaySetup(host, texts)


def relay_path(bot: Automation) -> str:
    """A path for the bot's relay that nobody can guess, the same each time the page is opened.

    The service stores it nowhere.
    """
    digest = salted_hmac("signals.pages.relay_path", bot.pk, algorithm="sha256").digest()
    return "/" + urlsafe_b64encode(digest[:PATH_BYTES]).decode()

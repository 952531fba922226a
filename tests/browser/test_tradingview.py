"""From the home page to the first fill of a TradingView alert, with nothing but what the pages say.

The test takes settings, systemd unit and web server from the page, runs the relay and nginx with
them, and plays the platform. Only what belongs to the machine is changed: folders, free ports, the
certificate, and the client's address, which nginx takes from a header here.
"""

import os
import re
import shutil
import ssl
import subprocess
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx2
import pytest
from playwright.sync_api import expect

from tests import relays
from tests.browser.stage import BOTH
from tests.relays import HERE, PLATFORM
from tests.server import free_port
from tests.signals.webhooks.runner.stage import until

NGINX = shutil.which("nginx")

pytestmark = [
    pytest.mark.processes,
    pytest.mark.once,
    pytest.mark.skipif(not NGINX, reason="nginx is not installed"),
]

MOST_CLICKS = 20
HOST = "alerts.trader.example"
TRADINGVIEW = "52.89.214.238"
STRANGER = "203.0.113.9"
CLIENT = "X-Client"  # the header in which the test says which address it plays
FILLED_IN = {
    "{{strategy.order.action}}": "sell",
    "{{strategy.market_position}}": "short",
    "{{strategy.position_size}}": "-0.5",
    "{{interval}}": "15",
    "{{timenow}}": "2026-11-20",
}
WHOLE_NGINX = """\
pid FOLDER/nginx.pid; error_log FOLDER/error.log; daemon off;
events {}
http {
  client_body_temp_path FOLDER/body; proxy_temp_path FOLDER/proxy; access_log off;
  fastcgi_temp_path FOLDER/fastcgi; scgi_temp_path FOLDER/scgi; uwsgi_temp_path FOLDER/uwsgi;
  set_real_ip_from 127.0.0.1; real_ip_header X-Client;
  SERVER
}
"""


class Machine:
    """The trader's server: what the page said, with this machine's folders and ports."""

    def __init__(self, folder, visitor, secret):
        self.folder, self.port, self.relay_port = folder, free_port(), free_port()
        page = visitor.page
        download = page.get_by_role("link", name="Download relay.py").get_attribute("href")
        offered = httpx2.get(visitor.stage.service.base_url + download, trust_env=False).text
        (folder / "relay.py").write_text(relays.patient(offered))
        settings = self.here(visitor.text("settings")).replace(
            f"https://{HOST}", f"https://localhost:{self.port}"
        )
        pasted = settings.replace("RELAY_SECRET=", f"RELAY_SECRET={secret}")
        (folder / "relay.env").write_text(pasted + "\n")
        self.unit, self.check = self.here(visitor.text("unit")), self.here(visitor.text("check"))
        server = self.here(visitor.text("nginx")).replace("listen 443", f"listen {self.port}")
        whole = WHOLE_NGINX.replace("SERVER", server).replace("FOLDER", str(folder))
        (folder / "nginx.conf").write_text(whole)
        self._make_certificate()

    def here(self, text):
        """The text with this machine's folders and ports."""
        return (
            text.replace("/opt/relay", str(self.folder))
            .replace(f"/etc/letsencrypt/live/{HOST}", str(self.folder))
            .replace("127.0.0.1:8080", f"{HERE}:{self.relay_port}")
            .replace("sudo ", "")
        )

    def _make_certificate(self):
        names = f"subjectAltName=DNS:{HOST},DNS:localhost"
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
        files = ["-keyout", "privkey.pem", "-out", "fullchain.pem"]
        subprocess.run(
            [*command, *files, "-subj", f"/CN={HOST}", "-addext", names],
            cwd=self.folder,
            check=True,
            capture_output=True,
        )

    @contextmanager
    def started(self):
        """Starts the relay as the unit says, and nginx in front of it."""
        program = re.search("^ExecStart=(.+)$", self.unit, re.M)[1].split()
        file = re.search("^EnvironmentFile=(.+)$", self.unit, re.M)[1]
        with open(file) as lines:
            environment = dict(line.strip().split("=", 1) for line in lines)
        log = open(self.folder / "log", "wb")  # noqa: SIM115 - closed below
        nginx = [NGINX, "-p", str(self.folder), "-c", str(self.folder / "nginx.conf")]
        running = [
            subprocess.Popen(program, env=environment, stdout=log, stderr=log),
            subprocess.Popen(nginx, stdout=log, stderr=log),
        ]
        try:
            until(lambda: b"listening on port" in (self.folder / "log").read_bytes())
            until((self.folder / "nginx.pid").exists)
            yield
        finally:
            for process in running:
                process.terminate()
                process.wait(60)
            log.close()

    def run_check(self):
        environment = {
            "PATH": os.environ["PATH"],
            "SSL_CERT_FILE": str(self.folder / "fullchain.pem"),
        }
        return subprocess.run(
            ["sh", "-c", self.check], env=environment, capture_output=True, text=True
        )

    def alert(self, webhook, message, sender=TRADINGVIEW):
        """Sends an alert to the webhook URL as the platform does."""
        trusted = ssl.create_default_context(cafile=self.folder / "fullchain.pem")
        to = urlsplit(webhook)
        request = httpx2.Request(
            "POST",
            f"https://{HERE}:{self.port}{to.path}",
            content=message,
            headers={**PLATFORM, "Host": to.netloc, CLIENT: sender},
            extensions={"sni_hostname": to.hostname},
        )
        with httpx2.Client(verify=trusted, trust_env=False) as platform:
            return platform.send(request)


@BOTH
def test_an_alert_of_tradingview_becomes_the_first_fill(visitor, scripts, tmp_path):
    page = visitor.page
    visitor.sign_up(f"chart-{scripts}@example.com".lower())
    visitor.connect()
    visitor.click("link", "Bots")
    secret = visitor.set_up_bot()
    visitor.click("link", "Set up TradingView")
    visitor.type("Host name of your relay", HOST)
    page.get_by_label("Host name of your relay", exact=True).press("Enter")
    expect(page.locator("pre#webhook")).to_contain_text(HOST)
    visitor.press(page.get_by_text("Yes: on my own server"))
    message = page.locator("details[name=alert] pre").first.text_content()
    for placeholder, value in FILLED_IN.items():
        message = message.replace(placeholder, value)
    webhook = visitor.text("webhook")
    machine = Machine(tmp_path, visitor, secret)
    assert secret not in page.content()
    heard = page.locator("[data-part=heard]")
    expect(heard).to_contain_text("Waiting for your first alert …")
    page.evaluate("window.unchanged = true")

    with machine.started():
        checked = machine.run_check()
        assert checked.returncode == 0, checked.stdout + checked.stderr
        assert "accepts the message: filled, ETH/USDT short, desks: 1" in checked.stdout
        assert machine.alert(webhook, message, STRANGER).status_code == 403
        assert machine.alert(f"{webhook}x", message).status_code == 404
        answer = machine.alert(webhook, message)
        assert answer.json()["outcome"] == "filled", answer.text
        assert machine.alert(webhook, message).json()["code"] == "nonce_used"
        exits = message.replace('"market_position": "short"', '"market_position": "flat"')
        assert machine.alert(webhook, exits).json()["outcome"] == "not_forwarded"
        _see_each_hop(page, heard, secret, machine, webhook, message, is_live=scripts)

    page.get_by_role("link", name="Overview", exact=True).click()
    expect(page.locator(".signalfilled")).to_have_count(2)
    expect(page.get_by_role("list", name="Steps to the first fill")).to_have_count(0)
    assert visitor.clicks <= MOST_CLICKS


def _see_each_hop(page, heard, secret, machine, webhook, message, *, is_live):
    """The open page shows what reached the service. Without scripts it is loaded again."""
    other = message.replace("ETH/USDT", "SOL/USDT").replace("2026-11-20", "2026-11-18")
    wrong = machine.alert(webhook, other)
    assert wrong.json()["code"] == "pair_mismatch"
    if not is_live:
        page.reload()
    expect(heard).to_contain_text("Refused pair_mismatch")
    later = message.replace("2026-11-20", "2026-11-19")
    assert machine.alert(webhook, later).json()["outcome"] == "filled"
    if not is_live:
        page.reload()
    expect(heard).to_contain_text("Filled ETH/USDT short, on paper")
    expect(heard).to_contain_text(f"Signed with svc_sign_…{secret[-4:]}")
    text = machine.alert(webhook, "ETHUSDT Crossing 2000")
    assert "paste the message of the bot's page into the alert" in text.json()["detail"]
    assert page.evaluate("window.unchanged") is (True if is_live else None)

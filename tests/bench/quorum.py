"""Deploys while a standby of two confirms each commit ÷ without: ``python -m tests.bench.quorum``.

The primary and both standbys share one machine and its disk, so the network between them costs
nothing, and the processor of the standbys is that of the service.
"""

import os
import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.bench import load
from tests.bench.line import Round, rates, ratio
from tests.drills.stage import Postgresql
from tests.server import serving

CONNECTIONS = (1, 16, 64)
ROUNDS, SECONDS = 5, 3
NOBODY, QUORUM = "", "ANY 1 (*)"


def main() -> None:
    print("load of the machine:", *os.getloadavg(), flush=True)
    with tempfile.TemporaryDirectory() as path, ExitStack() as stack:
        folder = Path(path)
        folder.chmod(0o755)  # PostgreSQL runs as another user
        primary = Postgresql(folder, folder / "primary.log")
        primary.start()
        stack.callback(primary.stop)
        primary.execute("CREATE DATABASE signals")
        for number in (2, 3):
            name, address = f"standby-{number}", f"127.0.0.{number}"
            standby = Postgresql(folder, folder / f"{name}.log", name, primary, address)
            standby.start()
            stack.callback(standby.stop)
        deploy = load.deploy(stack.enter_context(serving(DATABASE_URL=primary.url)))
        deploy.measure(SECONDS)  # everything is warm
        for connections in CONNECTIONS:
            rounds: dict[str, list[Round]] = {NOBODY: [], QUORUM: []}
            for _ in range(ROUNDS):
                for standbys, measured in rounds.items():
                    primary.confirm_by(standbys)
                    measured.append(deploy.measure(SECONDS, connections))
            one = {key: statistics.median(rates(of)) for key, of in rounds.items()}
            slow = {key: statistics.median(each.p99 for each in of) for key, of in rounds.items()}
            quotient = ratio(rates(rounds[QUORUM]), rates(rounds[NOBODY]))
            print(
                f"{connections} connections: {quotient:.2f}"
                f" ({one[QUORUM]:.0f} and {one[NOBODY]:.0f} deploys a second,"
                f" p99 {slow[QUORUM] / 1000:.0f} and {slow[NOBODY] / 1000:.0f} ms)",
                flush=True,
            )
    print("load of the machine:", *os.getloadavg(), flush=True)


if __name__ == "__main__":
    main()

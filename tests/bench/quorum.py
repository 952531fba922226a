"""Deploys while a standby of two confirms each commit ÷ without: ``python -m tests.bench.quorum``.

The primary and both standbys share one machine and its disk, so the network between them costs
nothing, and the processor of the standbys is that of the service.
"""

import os
import statistics

from tests.bench import load
from tests.bench.line import Round, rates, ratio
from tests.bench.replicas import cluster

CONNECTIONS = (1, 16, 64)
ROUNDS, SECONDS = 5, 3
NOBODY, QUORUM = "", "ANY 1 (*)"


def main() -> None:
    print("load of the machine:", *os.getloadavg(), flush=True)
    with cluster(2) as (server, primary, _):
        deploy = load.deploy(server)
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

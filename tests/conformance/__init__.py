"""Whether a running service keeps the contract, line by line: black box, over HTTP alone.

Each file is of one section of the contract, each test says in its docstring which line it holds the
service to. Nothing of the service's code is imported. Against any service, from anywhere that has
pytest and httpx:

    python manage.py seed --desks 30 --idle 5 --json > seed.json     # there, on an empty database
    BASE_URL=https://signals.example SEED_JSON=seed.json \\
        pytest -c /dev/null --rootdir tests/conformance --confcutdir tests/conformance \\
        tests/conformance

SEED_JSON is the file that the seeding printed, or its text; SSL_CERT_FILE names who vouches for the
service's certificate, where the system knows nothing of them. The service under test runs with its
limits off (``LIMIT_AUTOMATION=off`` and the other five): the suite sends more in a minute than one
sender may. It may require HTTPS and the staff's second factor, or not; what a Nox secret changes is
tried where the seeding was ``--nox``.

Where BASE_URL is not set, as in the product's own suite, the tests start real servers themselves
(``tests.server``), also one with a Nox secret and one with small limits; where that cannot be done,
as when the folder was copied away from the product, they are skipped, saying what is missing.

It can be run again and again on the same service: nonces are new each time, and what a test changes
it puts back, so that the seeded desks end as they began. Three things it cannot put back: the log
has grown, the first desk's token (``desks[0].deskToken``) is replaced by minting, and what was made
for a test stays in the lists, revoked or removed.
"""

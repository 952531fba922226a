"""The conformance suite: tests a running service against the contract, over HTTP alone.

Each file covers the section of the contract after which it is named. ``sentences.toml`` says which
test shows which sentence; the docstring of a test says what it shows.
The suite imports none of the service's code. It runs against any service, from any machine that has
pytest, httpx2 and jsonschema:

    python manage.py seed --desks 30 --idle 5 --json > seed.json     # on an empty database
    BASE_URL=https://signals.example SEED_JSON=seed.json \\
        pytest -c /dev/null --rootdir tests/conformance --confcutdir tests/conformance \\
        tests/conformance

| variable | meaning |
| --- | --- |
| ``BASE_URL`` | the base address of the service |
| ``SEED_JSON`` | the file with the output of ``manage.py seed``, or its text |
| ``SSL_CERT_FILE`` | the CA certificates to trust, where the system does not know them |
| ``WORKERS`` | how many worker processes may serve one connection: 1 unless a proxy spreads it |

The service must run with its limits off (every ``LIMIT_…`` of section 7 but ``LIMIT_STREAMS``),
because the suite sends more requests in a minute than a limit allows. It may require HTTPS, and a
second factor from staff. The tests of a Nox secret run only where the service was seeded with
``--nox``.

Without BASE_URL, as in the product's own test suite, the tests start real servers themselves
(``tests.server``): one without a Nox secret, one with it, two with small limits, one that sends
webhooks to the tests, and one for each test that ends what it cannot restore. Where that is not
possible, for example in a copy of this folder, the tests are skipped and the reason is printed.

``python -m tests.conformance.sentences`` lists the sentences of the contract without an example.

The suite can run repeatedly against the same service. Nonces are new each time, and each test
restores what it changes, so that the seeded desks end as they began. Three changes remain: the log
has grown, the token of the first desk (``desks[0].deskToken``) was replaced, and the bots and the
tokens that the tests made stay in the lists as removed or revoked.
"""

# Commands for developing and running the service. `make help` lists them; see also README.md.

SHELL := /bin/sh
.DEFAULT_GOAL := help

# The first Python on the PATH that is new enough. Override it with PYTHON=...
PYTHON ?= $(shell for name in python3 python3.11 python3.12 python3.13; do \
	"$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& { command -v "$$name"; break; }; done)
PORT ?= 8000
ONCE ?=
QUICK ?=

# Without compiled files each process of the suite would rewrite every test's assertions again.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
# In CI Python compiles what it imports. pip would compile everything, on one core.
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --require-hashes $(if $(CI),--no-compile)

# Settings for the deployment checks: those of a production server, with temporary keys.
key = $$($(BIN)/python -c 'import secrets; print(secrets.token_hex(32))')
PRODUCTION = ENV_FILE=/dev/null DEBUG=off SECRET_KEY=$(key) TOKEN_KEYS=$(key) \
	SECRET_KEYS=$(key) BASE_URL=https://signals.example DATABASE_URL=sqlite:////dev/null

.PHONY: help demo serve live cluster quick check other-checks lint types style test test-sqlite test-postgresql coverage bench drills mutants mutmut screenshots lock

help: ## list the commands
	@sed -n 's/^\([a-z]*\):.* ## /  make \1	/p' $(MAKEFILE_LIST)
	@echo '  PORT=8001 sets the port, PYTHON=… the Python; make demo ONCE=1 exits after the demonstration.'

demo: .venv/base .env ## serve a new database, play engine and bot, then stay up for a browser
	@exec $(BIN)/python manage.py demo --make $$PPID --port $(PORT) $(if $(ONCE),--once)

serve: .venv/base .env ## run the server, and the runner of webhooks, with the settings of the environment and .env
	@$(BIN)/python manage.py migrate --no-input --verbosity 1
	@$(BIN)/python manage.py createcachetable
	@$(BIN)/python manage.py collectstatic --no-input --verbosity 0
	@$(BIN)/python manage.py deliver & runner=$$!; \
	$(BIN)/python -m gunicorn -c config/gunicorn.conf.py & server=$$!; \
	trap 'kill $$server' INT TERM HUP; \
	while kill -0 $$server 2>/dev/null; do wait $$server; status=$$?; done; \
	kill $$runner; wait $$runner; exit $$status

live: .venv/base .env ## run the live server beside make serve: the feed for thousands of readers
	@exec $(BIN)/python -m config.live

cluster: .venv/dev .venv/patroni ## serve on three machines for the database, played on this one, as root; ONCE=1 ends after the demonstration
	@exec $(BIN)/python -m tests.drills.cluster_layout --port=$(PORT) $(if $(ONCE),--once)

# One worker more than there are cores, because some always wait for a browser or a server. Each
# file runs in one worker, so that its server starts once, and so do files that share servers
# (tests/distribution.py).
WORKERS ?= $$(($$(getconf _NPROCESSORS_ONLN) + 1))
PARALLEL = -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(MEASURE)
# In CI a test that failed runs once more, without other tests of its database. Its name is printed.
AGAIN = { [ "$$?$$CI" = 1true ] && echo 'Failed. Once more:' \
	&& $(BIN)/pytest $(CACHE) -v --maxfail=1 --last-failed --last-failed-no-failures=none; }
CACHE = -o cache_dir=.pytest_cache/$@
SUITE = { $(BIN)/pytest $(CACHE) $(PARALLEL) -m "$$only" || $(AGAIN); }
test: test-sqlite test-postgresql ## run every test on SQLite, and on TEST_DATABASE_URL and TEST_REDIS_URL if they are set

test-sqlite: .venv/dev
	@echo 'On SQLite:'
	@unset TEST_DATABASE_URL TEST_REDIS_URL; $(SUITE)

test-postgresql: .venv/dev
	@if [ -n "$$TEST_DATABASE_URL$$TEST_REDIS_URL" ]; then \
		echo 'On TEST_DATABASE_URL and TEST_REDIS_URL, without the tests that need no database:'; \
		only='not once'; $(SUITE); \
	else echo 'Not run on PostgreSQL and Redis: TEST_DATABASE_URL and TEST_REDIS_URL are not set.'; fi

# Unit tests that need no server, no browser and no other process. They run on SQLite.
QUICK_TESTS = not (processes or slow or pages)
quick: lint ## lint, format, types, imports and the unit tests but those of pages; a minute
	@unset TEST_DATABASE_URL TEST_REDIS_URL; $(BIN)/pytest -q -n $$(getconf _NPROCESSORS_ONLN) --dist loadfile -m "$(QUICK_TESTS)"
	@echo 'Left out: tests marked processes, slow or pages; PostgreSQL and Redis; bandit, djlint,' \
		'migrations, deployment. Run make check and make test before you commit.'

APPS = config signals tokens desks events
# mypy takes longer than all others together, so they run beside it.
check: ## all static checks: lint, format, types, imports, security, dependencies, templates, migrations, deployment
	@$(MAKE) --no-print-directory -j2 types other-checks

other-checks: style
	$(BIN)/bandit --quiet --configfile pyproject.toml --recursive $(APPS) manage.py
	$(BIN)/deptry .
	$(BIN)/djlint --lint templates
	$(BIN)/python -m tests.conformance.sentences
	@$(PRODUCTION) $(BIN)/python manage.py makemigrations --check --dry-run
	@$(PRODUCTION) $(BIN)/python manage.py check --deploy --fail-level WARNING

lint: types style

types: .venv/dev
	$(BIN)/mypy .

style: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

coverage: .venv/dev ## run the tests as make test does, and measure branch coverage
	@rm -f .coverage
	@$(MAKE) --no-print-directory test MEASURE='--cov --cov-append --cov-report= --cov-fail-under=0'
	$(BIN)/coverage report

bench: .venv/dev ## measure speed against baselines on TEST_DATABASE_URL; QUICK=1 takes a minute
	@$(BIN)/python -m tests.bench $(if $(QUICK),--quick)

# More of what `make test` tries, side by side as there: nothing in these tests depends on how busy the machine is.
LONGER = DRILLS=1 BATCH_KILLS=100 DELIVERY_KILLS=30 RACE_ROUNDS=25 EVENTS_EACH=1000 \
	STREAM_ORACLE_ROUNDS=400 MODEL_HISTORIES=100 EXAMPLES=25 WALK=all
drills: .venv/dev .venv/patroni ## inject faults under load and check that nothing is lost, on TEST_DATABASE_URL and TEST_REDIS_URL; half an hour
	@: $${TEST_DATABASE_URL:?must name a PostgreSQL database} $${TEST_REDIS_URL:?must name a Redis database}
	@$(BIN)/python -m tests.drills.one_account
	@$(BIN)/python -m tests.drills
	@$(BIN)/python -m tests.drills.cluster_faults
	@$(BIN)/python -m tests.drills.cluster_archive
	@$(BIN)/python -m tests.drills.cluster_replicas
	@DRILLS=1 $(BIN)/python -m tests.drills.cluster_layout --port=0 --once
	@$(BIN)/python -m tests.drills.layout_conformance
	@$(BIN)/python -m tests.drills.rolling
	@DRILLS=1 STREAM_ORACLE_ROUNDS=1000 $(BIN)/pytest -q tests/drills/test_live_kills.py \
		tests/drills/test_slow_clients.py tests/drills/test_exports.py tests/signals/demo/test_demo.py
	@$(LONGER) $(BIN)/pytest -q $(PARALLEL) tests/drills/test_operating.py tests/drills/test_key_rotation.py \
		tests/signals/intake/test_batch_kills.py tests/signals/intake/test_processes.py \
		tests/signals/webhooks/runner/test_kills.py tests/events/test_processes.py \
		tests/events/live/test_stream_oracle.py tests/model tests/schemathesis tests/browser/test_walk.py

mutants: .venv/dev ## plant the bugs of tests/mutants/ one at a time and name those that no test sees
	@$(BIN)/python -m tests.mutants

mutmut: .venv/dev ## plant made-up bugs in the critical modules; an hour, more on PostgreSQL
	@$(BIN)/mutmut run --max-children 1
	@$(BIN)/mutmut results

SCREENSHOTS ?= test-results/screenshots
screenshots: .venv/dev ## take a picture of every page, phone and desktop, light and dark; minutes
	@$(BIN)/python -m tests.browser.screenshots $(SCREENSHOTS)

# Every requirement is pinned with hashes. Lock with the oldest supported Python, Debian's 3.11.2: it
# needs the most packages (redis needs one more before 3.11.3).
# A constraint cannot name an extra. Elsewhere pip 23 takes `name[extra]` to be pinned only under that name.
LOCK = /tmp/signals-lock/bin/pip-compile --quiet --generate-hashes --no-header \
	--no-emit-index-url --no-emit-find-links --no-emit-trusted-host
lock: ## pin the requirements of pyproject.toml again; minutes
	@"$(PYTHON)" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 11, 3))' \
		|| { echo "Lock with Debian's Python: make lock PYTHON=/usr/bin/python3.11" >&2; exit 1; }
	"$(PYTHON)" -m venv --clear /tmp/signals-lock
	/tmp/signals-lock/bin/pip install --quiet pip-tools
	$(LOCK) --strip-extras --output-file requirements/base.txt pyproject.toml
	$(LOCK) --no-strip-extras --extra telemetry --constraint requirements/base.txt --output-file requirements/telemetry.txt pyproject.toml
	$(LOCK) --no-strip-extras --extra dev --extra telemetry --constraint requirements/base.txt --output-file requirements/dev.txt pyproject.toml
	echo pip | $(LOCK) --strip-extras --allow-unsafe --no-annotate --output-file requirements/pip.txt -
	cd deploy/cluster && $(LOCK) --strip-extras --output-file requirements.txt requirements.in
	rm -r /tmp/signals-lock

# --- Set-up: runs once, and again when the requirements change -----------------------------------

# The pip that comes with Python 3.11 takes twice the time.
.venv/bin/pip:
	@if [ -z "$(PYTHON)" ]; then \
		echo 'Python 3.11 or newer is required. Tried python3, python3.11, python3.12 and python3.13.' >&2; \
		exit 1; fi
	@"$(PYTHON)" -m venv .venv || { rm -rf .venv; \
		echo "$(PYTHON) cannot create a virtual environment. On Debian: apt install python3-venv" >&2; exit 1; }
	@$(PIP) -r requirements/pip.txt || { rm -rf .venv; exit 1; }

.venv/base: requirements/base.txt | .venv/bin/pip
	@echo 'Installing the requirements of the service.'
	@$(PIP) -r requirements/base.txt
	@touch $@

.venv/dev: requirements/dev.txt .venv/base
	@echo 'Installing the requirements of the tests.'
	@$(PIP) -r requirements/dev.txt
	@touch $@

# Patroni, for drills. It runs as the user postgres, who may not read a Python in somebody's home.
.venv/patroni: deploy/cluster/requirements.txt | .venv/bin/pip
	@echo 'Installing Patroni.'
	@/usr/bin/python3 -m venv --clear $@
	@$@/bin/pip install --quiet --disable-pip-version-check --require-hashes -r deploy/cluster/requirements.txt \
		|| { rm -rf $@; exit 1; }
	@touch $@

.env:
	@umask 077 && for name in SECRET_KEY TOKEN_KEYS SECRET_KEYS; do \
		echo "$$name=$$("$(PYTHON)" -c 'import secrets; print(secrets.token_hex(32))')" || exit 1; \
	done > .env.new && mv .env.new .env
	@echo 'Created .env with new random keys. Keep it: without it, tokens and secrets are lost.'

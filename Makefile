# What one does with this service. `make help` lists it; the README tells more.

SHELL := /bin/sh
.DEFAULT_GOAL := help

# The first Python that is new enough. PYTHON=... names another.
PYTHON ?= $(shell for name in python3 python3.11 python3.12 python3.13; do \
	"$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& { command -v "$$name"; break; }; done)
PORT ?= 8000
ONCE ?=
QUICK ?=

BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --require-hashes

# What the checks of a deployment take for settings: those of a real one, with keys of the moment.
key = $$($(BIN)/python -c 'import secrets; print(secrets.token_hex(32))')
LIKE_PRODUCTION = ENV_FILE=/dev/null DEBUG=off SECRET_KEY=$(key) TOKEN_KEYS=$(key) \
	SECRET_KEYS=$(key) BASE_URL=https://signals.example DATABASE_URL=sqlite:////dev/null

.PHONY: help demo serve test check coverage bench drills mutants lock

help: ## lists what there is
	@sed -n 's/^\([a-z]*\):.* ## /  make \1	/p' $(MAKEFILE_LIST)
	@echo '  PORT=8001 chooses another port, PYTHON=… another Python; make demo ONCE=1 ends after the round.'

demo: .venv/base .env ## serves a new database, acts as engine and automation, stays for a browser
	@exec $(BIN)/python manage.py demo --make $$PPID --port $(PORT) $(if $(ONCE),--once)

serve: .venv/base .env ## serves, as the environment and .env say
	@$(BIN)/python manage.py migrate --no-input --verbosity 1
	@$(BIN)/python manage.py createcachetable
	@$(BIN)/python manage.py collectstatic --no-input --verbosity 0
	@exec $(BIN)/gunicorn -c config/gunicorn.conf.py

# One worker more than cores: some always wait, for a browser or a server. A file stays with one
# worker, so that its server starts once. What races real processes runs last and has the machine
# for itself.
SPREAD = -n $$(($$(getconf _NPROCESSORS_ONLN) + 1)) --dist loadfile --no-loadscope-reorder
SUITE = $(BIN)/pytest $(SPREAD) -m "not alone$$but" && $(BIN)/pytest -m alone
test: .venv/dev ## the whole suite; once more where TEST_DATABASE_URL and TEST_REDIS_URL are set
	@echo 'On SQLite:'
	@unset TEST_DATABASE_URL TEST_REDIS_URL; $(SUITE)
	@if [ -n "$$TEST_DATABASE_URL$$TEST_REDIS_URL" ]; then \
		echo 'On what TEST_DATABASE_URL and TEST_REDIS_URL name, but for what says nothing of a database:'; \
		but=' and not once'; $(SUITE); \
	else echo 'Not run on PostgreSQL and Redis: TEST_DATABASE_URL and TEST_REDIS_URL are not set.'; fi

ROOMS = config signals tokens desks events
check: .venv/dev ## lint, format, types, layers, insecure ways, templates, missing migrations, deployment
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy .
	$(BIN)/lint-imports
	$(BIN)/bandit --quiet --configfile pyproject.toml --recursive $(ROOMS) manage.py
	$(BIN)/djlint --lint templates
	@$(LIKE_PRODUCTION) $(BIN)/python manage.py makemigrations --check --dry-run
	@$(LIKE_PRODUCTION) $(BIN)/python manage.py check --deploy --fail-level WARNING

coverage: .venv/dev ## the suite on SQLite, and how much of the code it takes, branch by branch
	@unset TEST_DATABASE_URL TEST_REDIS_URL; $(BIN)/pytest $(SPREAD) -m "not alone" --cov --cov-report= \
		&& $(BIN)/pytest -m alone --cov --cov-append

bench: .venv/dev ## how fast it is, beside baselines, on the PostgreSQL of TEST_DATABASE_URL; QUICK=1: in a minute
	@$(BIN)/python -m tests.bench $(if $(QUICK),--quick)

drills: .venv/dev ## kills, cuts, fills and stops what it stands on, under a load: is anything lost? Ten minutes
	@$(BIN)/python -m tests.drills

mutants: .venv/dev ## whether a test sees each change of the lines that matter most; takes an hour, more on PostgreSQL
	@$(BIN)/mutmut run --max-children 1
	@$(BIN)/mutmut results

SCREENSHOTS ?= test-results/screenshots
screenshots: .venv/dev ## a picture of every page, phone and desktop, light and dark, in SCREENSHOTS; takes minutes
	@$(BIN)/python -m tests.browser.screenshots $(SCREENSHOTS)

# Everything is pinned, with hashes. The oldest Python decides, since it needs the most: take 3.11.2.
LOCK = /tmp/signals-lock/bin/pip-compile --quiet --generate-hashes --strip-extras --no-header \
	--no-emit-index-url --no-emit-find-links --no-emit-trusted-host
lock: ## pins the requirements of pyproject.toml anew; takes minutes
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' \
		|| { echo 'Lock with the oldest Python: make lock PYTHON=python3.11' >&2; exit 1; }
	"$(PYTHON)" -m venv --clear /tmp/signals-lock
	/tmp/signals-lock/bin/pip install --quiet pip-tools
	$(LOCK) --output-file requirements/base.txt pyproject.toml
	$(LOCK) --extra dev --constraint requirements/base.txt --output-file requirements/dev.txt pyproject.toml
	rm -r /tmp/signals-lock

# --- The set-up: done once, and again when the requirements change -------------------------------

.venv/bin/pip:
	@if [ -z "$(PYTHON)" ]; then \
		echo 'Python 3.11 or newer is needed, and none of python3, python3.11, python3.12, python3.13 is.' >&2; \
		exit 1; fi
	@"$(PYTHON)" -m venv .venv || { rm -rf .venv; \
		echo "$(PYTHON) cannot make a virtual environment; on Debian: apt install python3-venv" >&2; exit 1; }

.venv/base: requirements/base.txt | .venv/bin/pip
	@echo 'Installing what the service needs.'
	@$(PIP) -r requirements/base.txt
	@touch $@

.venv/dev: requirements/dev.txt .venv/base
	@echo 'Installing what its tests need.'
	@$(PIP) -r requirements/dev.txt
	@touch $@

.env:
	@umask 077 && for name in SECRET_KEY TOKEN_KEYS SECRET_KEYS; do \
		echo "$$name=$$("$(PYTHON)" -c 'import secrets; print(secrets.token_hex(32))')" || exit 1; \
	done > .env.new && mv .env.new .env
	@echo 'Made .env with new random keys. Keep it: without it tokens and secrets are lost.'

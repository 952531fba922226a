#!/usr/bin/env bash
# Restores a back-up into a new, empty database and proves it. The service's own database stays as it is.
#
#     deploy/restore.sh [--after-loss] [--containers] DUMP [DATABASE]
#
# DUMP          a file of pg_dump --format=custom, of this release or of an earlier one
# DATABASE      the name of an empty database on the same server as the service's own. By default
#               signals_restored
# --after-loss  The dump is older than what readers have seen. Begins a new epoch of the log.
# --containers  The service runs with compose.yaml. Without it, DATABASE_URL and the keys must be in the
#               environment, and the requirements in .venv.
#
# It stops at the first error. Exit status 0 means that the database is complete, has the tables of this
# release, and that the audit found no fault. OPERATING.md says how to serve it then.
set -Eeuo pipefail

usage() {
    sed -n '4s/^# *//p' "$0" >&2
    exit 2
}

refuse() {
    echo "$1" >&2
    exit 2
}

after_loss=false containers=false
while [[ "${1-}" == --* ]]; do
    case "$1" in
        --after-loss) after_loss=true ;;
        --containers) containers=true ;;
        *) usage ;;
    esac
    shift
done
[[ $# -eq 1 || $# -eq 2 ]] || usage
dump="$(realpath -- "$1")" database="${2-signals_restored}"
[[ "$database" =~ ^[A-Za-z0-9_]+$ ]] || refuse 'The name of the database may have letters, digits and underscores.'
deploy="$(cd -- "$(dirname -- "$0")" && pwd)"

if "$containers"; then
    cd "$deploy"
    own=signals
    server=(docker compose exec -T postgres)
    to=(--username=signals --dbname="$database")
    manage() {
        # shellcheck disable=SC2016 # the container's shell expands it: it alone knows the password
        docker compose run --rm -T --no-deps web1 \
            sh -c 'DATABASE_URL="${DATABASE_URL%/*}/$0" exec python manage.py "$@"' "$database" "$@" < /dev/null
    }
else
    cd "$deploy/.."
    without_options="${DATABASE_URL%%\?*}"
    [[ "$without_options" == postgres*://*/* ]] || refuse 'DATABASE_URL must name a database of PostgreSQL.'
    own="${without_options##*/}"
    url="${without_options%/*}/$database${DATABASE_URL#"$without_options"}"
    server=()
    to=(--dbname="$url")
    manage() {
        DATABASE_URL="$url" .venv/bin/python manage.py "$@"
    }
fi

[[ "$database" != "$own" ]] || refuse "$database is the service's own database. Restore into another one."
"${server[@]}" pg_restore --list < "$dump" > /dev/null
relations="$("${server[@]}" psql "${to[@]}" --no-psqlrc --tuples-only --no-align --command="
    SELECT count(*) FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'")"
[[ "$relations" == 0 ]] || refuse "$database is not empty. Restore into a new database."

trap 'echo "Stopped. Do not serve $database: drop it and begin again. No other database was changed." >&2' ERR
# All of the dump or nothing.
"${server[@]}" pg_restore "${to[@]}" --exit-on-error --single-transaction --no-owner --no-acl < "$dump"
# Without statistics the audit's queries, and later the service's, would be planned badly.
"${server[@]}" psql "${to[@]}" --no-psqlrc --quiet \
    --command='SET client_min_messages = error' --command='ANALYZE'
manage migrate --no-input --verbosity=0
manage createcachetable
if "$after_loss"; then
    manage new_epoch
fi
manage audit
echo "$database holds the back-up, with the tables of this release."

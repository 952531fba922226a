#!/usr/bin/env bash
# Restores PostgreSQL as it was at a point in time, from the archive of pgBackRest, and proves it.
# It writes to a new folder: the service's own PostgreSQL stays as it is, and may run or be gone.
#
#     deploy/restore-point.sh [--cluster DUMP] TIME FOLDER PORT
#
# TIME    such as '2026-11-24 20:15:00+00'. What was committed later is left out
# FOLDER  a folder that does not exist yet
# PORT    a free port, at which PostgreSQL listens on 127.0.0.1 while the copy is proved
# DUMP    a new file. The archive is that of three machines: follows the changes of the primary since the back-up, and
#         writes what it has proved into this file, in the format of pg_dump --format=custom
#
# Run it as root. DATABASE_URL and the keys must be in the environment, and the requirements in .venv. It stops at
# the first error. Exit status 0 means that FOLDER is complete, begins a new epoch of the log, has the tables of this
# release, and that the audit found no fault. OPERATING.md says how to serve it then.
set -Eeuo pipefail

refuse() {
    echo "$1" >&2
    exit 2
}

timeline=current dump=
if [[ "${1-}" == --cluster && $# -eq 5 ]]; then
    timeline=latest dump="$2"
    shift 2
    [[ "$dump" == /* && ! -e "$dump" ]] || refuse "$dump must be an absolute path of nothing that exists."
fi
[[ $# -eq 3 ]] || refuse "$(sed -n '5s/^# *//p' "$0")"
time="$1" folder="$2" port="$3"
cd -- "$(dirname -- "$0")/.."
[[ "$folder" == /* && ! -e "$folder" ]] || refuse "$folder must be an absolute path of nothing that exists."
[[ "$port" =~ ^[0-9]+$ ]] || refuse 'PORT must be a number.'
[[ "${DATABASE_URL-}" =~ ^postgres[a-z]*://([^/@]*@)?[^/]*(/.*)$ ]] || refuse 'DATABASE_URL must name a database of PostgreSQL.'
export DATABASE_URL="postgres://${BASH_REMATCH[1]}127.0.0.1:$port${BASH_REMATCH[2]}"

as_postgres() {
    runuser -u postgres -- "$@"
}
control() {
    as_postgres "/usr/lib/postgresql/$(cat "$folder/PG_VERSION")/bin/pg_ctl" --pgdata="$folder" --wait --silent "$@"
}
manage() {
    .venv/bin/python manage.py "$@"
}

trap 'echo "Stopped. Do not serve $folder: remove it and begin again. Nothing else was changed." >&2' ERR
as_postgres mkdir --mode=700 "$folder"
as_postgres pgbackrest --stanza=signals --pg1-path="$folder" --log-level-console=warn \
    --type=time --target="$time" --target-timeline="$timeline" --target-action=promote restore
# Debian keeps these files elsewhere, so the back-up has none.
# shellcheck disable=SC2016 # the shell of the other user expands it
as_postgres sh -c 'cd "$0" && touch postgresql.conf pg_ident.conf && if [ ! -e pg_hba.conf ]; then
    echo "host all all 127.0.0.1/32 scram-sha-256" >pg_hba.conf; fi' "$folder"
trap 'control --mode=fast stop || true' EXIT
# Nobody can connect before it has reached the point in time. It ends if the archive does not reach so far. What it
# writes itself is archived once the folder is in the place of the service's own: pgBackRest refuses it before. No
# standby follows the copy, so its commits must not wait for one that the back-up's settings name.
control --timeout=86400 --log="$folder/restore.log" \
    --options="-p $port -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c hot_standby=off \
        -c synchronous_standby_names=''" start
manage migrate --no-input --verbosity=0
manage createcachetable
manage new_epoch
manage audit
[[ -z "$dump" ]] || (umask 077 && pg_dump --format=custom --file="$dump" "$DATABASE_URL")
echo "$folder holds PostgreSQL as of $time, with the tables of this release and a new epoch."

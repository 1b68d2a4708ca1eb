# SPDX-License-Identifier: GPL-2.0-or-later
# What the commands of table.toml refer to. $ROOT is what prepare.sh has filled, $B the server's address, $AGENT the agent's
# address and port, $LONGHAUL the binary. A program's own files are in $DIR, and what it transfers goes to $OUT.
export DIR=$ROOT/out HOME=$ROOT/out OUT=$ROOT/out/out WEB=$ROOT/web KEY=$ROOT/key
export SSH="-q -i $KEY -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o BatchMode=yes"
export APT="-o Dir=$DIR/apt -o Dir::State::status=$DIR/status -o Debug::NoLocking=1 -o APT::Sandbox::User=root"
export CHROMIUM="--headless --no-sandbox --disable-gpu --disable-background-networking --user-data-dir=$DIR/profile"
# A program of PostgreSQL, as its user; in place, so that a signal reaches it.
export POSTGRES="setpriv --reuid postgres --regid postgres --clear-groups $(ls -d /usr/lib/postgresql/*/bin | tail -1)"

# Begins a program's run, in a directory that is empty but for what apt wants.
begin() {
    rm -rf "$DIR"
    mkdir -p "$DIR/apt/var/lib/apt/lists/partial" "$DIR/apt/var/cache/apt/archives/partial"
    for part in apt.conf.d preferences.d trusted.gpg.d; do mkdir -p "$DIR/apt/etc/apt/$part"; done
    echo "deb [trusted=yes] http://$B:8000/apt ./" > "$DIR/apt/etc/apt/sources.list"
    touch "$DIR/status"
}

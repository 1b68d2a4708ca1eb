# SPDX-License-Identifier: GPL-2.0-or-later
# Makes what the servers and programs of table.toml need. $ROOT is a directory with web/file in it, $PROGRAMS this one,
# $CLIENTS the network that PostgreSQL's clients come from.
set -e
# PostgreSQL runs as a user of its own.
chmod 755 "$ROOT"
cd "$ROOT/web"
git init -q --bare sets.git
git init -q work
cp file work/
git -C work add file
git -C work -c user.name=n -c user.email=e commit -qm set
git -C work push -q ../sets.git HEAD:refs/heads/main
git -C sets.git symbolic-ref HEAD refs/heads/main
git -C sets.git update-server-info
mkdir -p package/DEBIAN apt simple/sets
printf 'Package: sets\nVersion: 1\nArchitecture: all\nMaintainer: n <e@example.org>\nDescription: a set\n' > package/DEBIAN/control
cp file package/
dpkg-deb -Znone -b package apt/sets_1_all.deb > /dev/null
(cat package/DEBIAN/control
 printf 'Filename: ./sets_1_all.deb\nSize: %s\nSHA256: %s\n' "$(stat -c %s apt/sets_1_all.deb)" "$(sha256sum < apt/sets_1_all.deb | cut -d' ' -f1)") > apt/Packages
python3 - <<'END'
import zipfile
with zipfile.ZipFile("simple/sets/sets-1-py3-none-any.whl", "w") as wheel:
    wheel.write("file")
    wheel.writestr("sets-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: sets\nVersion: 1\n")
    wheel.writestr("sets-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr("sets-1.dist-info/RECORD", "")
open("simple/sets/index.html", "w").write('<a href="sets-1-py3-none-any.whl">sets</a>')
with open("file", "rb") as file, open("page.html", "w") as page:
    page.write("<pre>" + file.read(1 << 20).hex() + "</pre>")
END
cd "$ROOT"
cp "$PROGRAMS"/Get.java "$PROGRAMS"/get.* "$PROGRAMS"/*.py .
cc -static -O1 -o get-c get.c
CGO_ENABLED=0 GOCACHE=$PWD/cache go build -o get-go get.go
rm -rf cache
ssh-keygen -q -t ed25519 -N '' -f host-key
ssh-keygen -q -t ed25519 -N '' -f key
chmod 600 key.pub
. "$PROGRAMS/environment.sh"
install -d -o postgres postgres
$POSTGRES/initdb -D postgres -A trust --locale C > initdb.log
echo "host all all $CLIENTS trust" >> postgres/pg_hba.conf
printf '%s\n' "HostKey $ROOT/host-key" "AuthorizedKeysFile $ROOT/key.pub" 'StrictModes no' 'UsePAM no' 'PidFile none' \
    'PermitRootLogin yes' 'Subsystem sftp internal-sftp' > sshd.conf
printf '%s\n' 'use chroot = no' '[data]' "path = $ROOT/web" > rsyncd.conf

# SPDX-License-Identifier: GPL-2.0-or-later
# make demo    the main job on this machine: installs what is missing, builds, runs
# make check   formatting, clippy, and the tests that need no emulator, depot or kernel program, nor
#              root: a few minutes, for each commit
# make test    all tests, four programs side by side (scripts/run-tests)
# make test-long
#              what takes too long for each change: more random cases of the tests that take a number of them
# make test-declared
#              the same as root, where nothing but what the targets below declare is installed; also the demo's
#              tests, the Debian package and each bench with what theirs declare
# make lint    formatting, clippy, shell scripts
# make install-lib PREFIX=/usr/local DESTDIR=
#              the library for C, its header and manual page
# make deb     the Debian package, in target/debian
# make deb-check
#              makes it and checks it: size, lintian, and an installation on a clean Debian
# make wheel   the Python package for other machines, in target/wheels
# make study   the papers' figures in full: some eight hours of emulation, and of simulation;
#              resumable, records in out/. study-emulated and study-simulated do one of the two

SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo -E env "PATH=$$PATH:/usr/sbin:/sbin")
LONGHAUL := target/release/longhaul
CARGO_DEB := 3.8.0
# scripts/declared-only asks it for the packages of a target.
INSTALL_MISSING := scripts/install-missing

# Crates whose tests run in this process alone, in virtual time where they have time.
PURE := units netmodel congestion scenario protocol record report sim

PREFIX := /usr/local
LIBDIR := $(PREFIX)/lib

# What the package may install, in MB: the binary without its line tables is 27 MB.
DEB_LIMIT := 40

.PHONY: install-lib deb deb-check wheel demo check test test-long test-declared lint build study study-emulated study-simulated study-modelled \
    deps-build deps-run deps-deb deps-deb-check deps-wheel deps-test deps-bench deps-bench-programs

demo: deps-run build
	$(SUDO) $(LONGHAUL) demo

build: deps-build
	cargo build --release --locked --package longhaul-cli

check: deps-build
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo test --workspace --exclude longhaul-kernel --locked --lib --bins $(PURE:%=--test %)

install-lib: deps-build
	cargo build --release --locked --package longhaul-session-c
	DESTDIR=$(DESTDIR) scripts/install-lib target/release $(PREFIX) $(LIBDIR)

deb: deps-build deps-deb
	cargo build --release --locked --package longhaul-cli --bin longhaul --example manuals
	rm -rf target/debian
	mkdir -p target/debian/manuals
	target/release/examples/manuals target/debian/manuals
	scripts/deb target/release/longhaul target/debian/manuals target/debian

deb-check: deps-deb-check deb
	$(SUDO) scripts/deb-check target/debian/*.deb target/debian $(DEB_LIMIT)

wheel: deps-build deps-wheel
	rm -rf target/wheels
	scripts/wheel target/wheels

# Network namespaces and TAP devices take root, so the tests run as root. They are built by the
# user, so that no file of root's is left in target/.
test: deps-test
	cargo test --workspace --locked --no-run
	$(SUDO) scripts/run-tests

# Both take other cases each time, and print the seed that repeats them.
test-long: deps-test
	LONGHAUL_CONVERSATIONS=20000 cargo test --workspace --locked --test alone -- conversations:: --nocapture
	LONGHAUL_CRASHES=20000 cargo test --workspace --locked --test store -- crashes:: --nocapture
	LONGHAUL_ANSWERS_SECONDS=600 cargo test --workspace --locked --test transfer -- answers:: --nocapture

# A test that needs an undeclared program passes on a machine that has it from before, and fails here. The two tests
# are the demo's and the package's work, with what the demo and the package declare.
DECLARED_ONLY := $(SUDO) scripts/declared-only
test-declared: deps-test
	cargo test --workspace --locked --no-run
	$(DECLARED_ONLY) deps-test -- $(MAKE) test
	$(DECLARED_ONLY) deps-build deps-run -- cargo test --workspace --locked --test cli \
	    demo::every_variant_delivers_the_file_and_records_its_route
	$(DECLARED_ONLY) deps-build deps-deb -- cargo test --workspace --locked --test cli \
	    package::package_has_a_manual_page_for_each_command & package=$$!; \
	    $(DECLARED_ONLY) deps-bench-programs -- bench/smoke; benches=$$?; wait $$package && exit $$benches

lint: deps-build
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --quiet
	shellcheck $$(grep -lE '^#!.*sh$$' scripts/*) deploy/debian/scripts/* deploy/systemd/next-depot bench/congestion .ci/run
	python3 -c 'import ast, sys; [ast.parse(open(f).read(), f) for f in sys.argv[1:]]' \
	    $$(grep -rlE '^#!.*python3' bench scripts interop deploy) $$(find bench interop python -name '*.py' -not -path '*/target/*')

study: study-emulated study-simulated study-modelled

study-modelled: deps-test build
	scripts/study 000-figure-04
	scripts/study 000-figure-05

study-emulated: deps-test build
	$(SUDO) scripts/study 000-figure-08
	$(SUDO) scripts/study 000-figure-09
	$(SUDO) scripts/study 000-figure-10
	$(SUDO) scripts/study 000-figure-11
	$(SUDO) scripts/study 000-figure-12
	$(SUDO) scripts/study 000-figure-13
	$(SUDO) scripts/study 001-table-3-emulated
	$(SUDO) scripts/study 001-table-4-emulated
	$(SUDO) bench/kernel/flows --emu

# The cheapest first. At 5 and 10 Gb/s 120 s instead of 600 s, or these two would take longer than all else.
study-simulated: deps-test build
	bench/kernel/flows --sim
	scripts/study 001-figure-2
	scripts/study 001-figure-6
	scripts/study 001-figure-7
	scripts/study 001-figure-8
	scripts/study 001-figure-9
	scripts/study 001-figure-10
	scripts/study 001-table-3
	scripts/study 001-table-4
	scripts/study 003-figure-05
	scripts/study 003-figure-10
	scripts/study 003-figure-11
	scripts/study 003-figure-28
	scripts/study 004-parallel-streams
	scripts/study 004-12x1g
	scripts/study 004-latency
	scripts/benchmark
	scripts/study 004-3000mb
	scripts/study 002-figure-4
	scripts/study-causes
	scripts/study 002-figure-2
	scripts/study 002-figure-3 --set 'sweep.vars.rate=["155mbit", "622mbit", "1gbit"]'
	scripts/study 002-figure-3 --set 'sweep.vars.rate=["5gbit", "10gbit"]' --set vars.duration=120s

deps-build:
	$(INSTALL_MISSING) 'cc:gcc libc6-dev' clang:clang pkg-config:pkg-config protoc:protobuf-compiler \
	    /usr/include/google/protobuf/descriptor.proto:libprotobuf-dev \
	    /usr/include/libelf.h:libelf-dev /usr/include/zlib.h:zlib1g-dev

deps-run:
	$(INSTALL_MISSING) ip:iproute2 curl:curl wget:wget aria2c:aria2 nginx:nginx-light

deps-deb:
	$(INSTALL_MISSING) dpkg-shlibdeps:dpkg-dev strip:binutils xz:xz-utils lintian:lintian
	cargo deb --version >/dev/null 2>&1 || \
	    cargo install --locked --no-default-features --version $(CARGO_DEB) cargo-deb

deps-wheel:
	$(INSTALL_MISSING) pip3:python3-pip python3:python3

deps-deb-check:
	$(INSTALL_MISSING) mmdebstrap:mmdebstrap

deps-test: deps-build deps-run deps-deb
	$(INSTALL_MISSING) apache2:apache2-bin chromium:chromium certutil:libnss3-tools \
	    rclone:rclone sysctl:procps kill:procps faketime:faketime openssl:openssl gzip:gzip setpriv:util-linux unshare:util-linux nsenter:util-linux chrt:util-linux \
	    python3:python3 \
	    /usr/lib/python3/dist-packages/requests/__init__.py:python3-requests \
	    /usr/lib/python3/dist-packages/numpy/__init__.py:python3-numpy \
	    /usr/lib/python3/dist-packages/pandas/__init__.py:python3-pandas \
	    /usr/lib/python3/dist-packages/scipy/__init__.py:python3-scipy \
	    /usr/lib/python3/dist-packages/cryptography/__init__.py:python3-cryptography promtool:prometheus \
	    mmdebstrap:mmdebstrap 'podman:podman buildah' crun:crun pip3:python3-pip systemd-analyze:systemd \
	    sudo:sudo rsync:rsync ncat:ncat iperf3:iperf3 /usr/sbin/sshd:openssh-server ssh:openssh-client psql:postgresql-client \
	    /usr/lib/postgresql:postgresql git:git node:nodejs go:golang-go javac:default-jdk-headless \
	    unzip:unzip xxd:xxd tshark:tshark tcptrace:tcptrace libnftables.so.1:libnftables1 nft:nftables \
	    etcd:etcd-server etcdctl:etcd-client munged:munge slurmctld:slurmctld slurmd:slurmd sbatch:slurm-client \
	    qemu-system-x86_64:qemu-system-x86 busybox:busybox-static depmod:kmod xz:xz-utils

# What benches need besides, and what they build.
deps-bench: deps-bench-programs
	cargo build --release --locked --package longhaul-cli
	cargo build --release --locked --package longhaul-cli --package longhaul-protocol --package longhaul-session --examples

deps-bench-programs: deps-test
	$(INSTALL_MISSING) haproxy:haproxy /usr/lib/nginx/modules/ngx_stream_module.so:libnginx-mod-stream socat:socat wrk:wrk \
	    ns:ns2 tc:iproute2 gcc:gcc /usr/include/bpf/libbpf.h:libbpf-dev

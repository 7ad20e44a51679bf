#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The set-up script, in a stand-in for a checkout, with stand-ins for Debian's tools.

bats_require_minimum_version 1.5.0

setup() {
	checkout=$BATS_TEST_TMPDIR/checkout
	tools=$BATS_TEST_TMPDIR/tools
	calls=$BATS_TEST_TMPDIR/calls
	mkdir -p "$checkout/emulator/guest" "$tools"
	: >"$calls"
	cp "$srcdir/bootstrap" "$checkout"
	export calls PATH=$tools:$PATH LONGHAUL_CACHE=$BATS_TEST_TMPDIR/cache
	unset LONGHAUL_GUEST_KERNEL LONGHAUL_DATADIR LONGHAUL_PLOTDIR LONGHAUL_TRAINER
	unset LONGHAUL_WERROR LONGHAUL_CONFIGURE_FLAGS MAKEFLAGS MAKELEVEL MFLAGS

	tool "$checkout/emulator/guest/build-kernel" 'echo /kernel'
	# all packages that are asked for are there
	tool "$tools/dpkg-query" 'shift 3; printf "installed %s\n" "$@"'
	tool "$tools/apt-get" 'exit 100'
	tool "$tools/apt-cache" 'exit 0'
	tool "$tools/sudo" 'exit 1'
	tool "$tools/sleep" 'exit 0'
	tool "$tools/autoreconf" '
		mkdir -p "$2/build-aux" && touch "$2/Makefile.in" "$2/build-aux/tap-driver.sh"
		cp "$BATS_TEST_TMPDIR/configure" "$2"'
	tool "$BATS_TEST_TMPDIR/configure" 'cp "$BATS_TEST_TMPDIR/Makefile" .'
	tool "$BATS_TEST_TMPDIR/longhaul" 'echo "$PWD: $*"; env | grep ^LONGHAUL_ | sort; exit 6'
	cat >"$BATS_TEST_TMPDIR/Makefile" <<-'EOF'
		all: ; cp -u $(BATS_TEST_TMPDIR)/longhaul .
		check: ; cp $(BATS_TEST_TMPDIR)/test-suite.log .
	EOF
	suite 3 0 1
}

# A program that writes its name and arguments to the file of calls, then runs the commands.
tool() {
	printf '#!/bin/bash\necho "%s $*" >>"$calls"\n%s\n' "${1##*/}" "$2" >"$1"
	chmod +x "$1"
}

# What automake writes of so many tests that passed, failed and were skipped.
suite() {
	printf '# TOTAL: 9\n# PASS:  %d\n# SKIP:  %d\n# XFAIL: 0\n# FAIL:  %d\n# XPASS: 0\n# ERROR: 0\n' \
		"$1" "$3" "$2" >"$BATS_TEST_TMPDIR/test-suite.log"
}

@test "longhaul runs in the caller's folder with its environment and exit status" {
	cd /
	run -6 --separate-stderr "$checkout/bootstrap" run 'a b' --seed 1
	[ "${lines[0]}" = "/: run a b --seed 1" ]
	[[ $output == *"LONGHAUL_DATADIR=$checkout/scenarios"* ]]
	[[ $output == *"LONGHAUL_PLOTDIR=$checkout/plots"* ]]
	[[ $output == *"LONGHAUL_TRAINER=$checkout/build/longhaul-trainer"* ]]
	if [ "$(uname -m)" = x86_64 ]; then
		[[ $output == *"LONGHAUL_GUEST_KERNEL=/kernel"* ]]
	fi
}

@test "a second call neither configures nor installs, and says nothing" {
	"$checkout/bootstrap" build
	: >"$calls"
	run -0 "$checkout/bootstrap" build
	[ -z "$output" ]
	run ! grep -E '^(apt-get|autoreconf|configure) ' "$calls"
}

@test "other flags configure again" {
	"$checkout/bootstrap" build
	: >"$calls"
	LONGHAUL_WERROR=1 LONGHAUL_CONFIGURE_FLAGS="--enable-sanitizers" "$checkout/bootstrap" build
	grep -qx 'configure --enable-werror --enable-sanitizers' "$calls"
	run ! grep '^autoreconf' "$calls"
}

@test "a checkout that was moved is configured again" {
	"$checkout/bootstrap" build
	mv "$checkout" "$checkout-moved"
	: >"$calls"
	run -0 "$checkout-moved/bootstrap" build
	grep '^configure' "$calls"
}

@test "missing packages are installed by root, else the command is named" {
	tool "$tools/dpkg-query" 'shift 3; printf "installed %s\n" "$@" | grep -v -e autoconf -e gnuplot'
	if [ "$(id -u)" = 0 ]; then
		tool "$tools/apt-get" 'exit 0'
		run -0 "$checkout/bootstrap" build
		grep -q '^apt-get .*install -y --no-install-recommends autoconf gnuplot-nox$' "$calls"
	else
		run -4 "$checkout/bootstrap" build
		[[ $output == *"run as root: apt-get install --no-install-recommends autoconf gnuplot-nox" ]]
	fi
}

@test "what only tests need is asked for by check alone" {
	"$checkout/bootstrap" build
	run -6 "$checkout/bootstrap" run
	run ! grep -E '^dpkg-query .*(bats|python3-torch)' "$calls"
	: >"$calls"
	run -0 "$checkout/bootstrap" check
	grep -q '^dpkg-query .* bats .*python3-torch' "$calls"
}

@test "the first check configures again, as tests may have become possible" {
	"$checkout/bootstrap" build
	: >"$calls"
	"$checkout/bootstrap" check
	[ "$(grep -c '^configure' "$calls")" = 1 ]
	"$checkout/bootstrap" check
	"$checkout/bootstrap" build
	[ "$(grep -c '^configure' "$calls")" = 1 ]
}

@test "where installing fails it is tried again, then the command is named" {
	[ "$(id -u)" = 0 ] || tool "$tools/sudo" 'shift; [ "$1" = true ] || "$@"'
	tool "$tools/dpkg-query" 'shift 3; printf "installed %s\n" "$@" | grep -v -e autoconf'
	run -4 "$checkout/bootstrap" build
	[[ $output == *"run as root: apt-get install --no-install-recommends autoconf" ]]
	[ "$(grep -c '^apt-get .* install ' "$calls")" = 3 ]
}

@test "with a guest kernel given none is built, nor its packages asked for" {
	export LONGHAUL_GUEST_KERNEL=/other
	run -6 "$checkout/bootstrap" run
	[[ $output == *"LONGHAUL_GUEST_KERNEL=/other"* ]]
	run ! grep '^build-kernel' "$calls"
	run ! grep '^dpkg-query .*linux-source' "$calls"
	grep '^dpkg-query .*libnl-3-dev' "$calls"
}

@test "a step that fails is named with its log" {
	printf 'all:\n\techo "a.c:1:1: error: oops"; exit 1\n' >"$BATS_TEST_TMPDIR/Makefile"
	run -1 "$checkout/bootstrap" build
	[[ $output == *"a.c:1:1: error: oops"* ]]
	[[ $output == *"make: failed; the full log is $checkout/build/make.log" ]]
}

@test "a checkout that is not writable is built in the cache" {
	[ "$(id -u)" != 0 ] || skip "root may write everywhere"
	chmod -w "$checkout"
	run -6 "$checkout/bootstrap" run
	chmod +w "$checkout"
	[ ! -e "$checkout/build" ]
	[[ $output == *"LONGHAUL_TRAINER=$LONGHAUL_CACHE/checkout-"*"/build/longhaul-trainer"* ]]
}

@test "check ends with the totals, and fails when a test did or none ran" {
	run -0 "$checkout/bootstrap" check
	[ "${lines[-1]}" = "3 passed, 0 failed, 1 skipped" ]
	suite 3 2 0
	run -1 "$checkout/bootstrap" check
	[ "${lines[-1]}" = "3 passed, 2 failed, 0 skipped" ]
	suite 0 0 4
	run -1 "$checkout/bootstrap" check
	[ "${lines[-1]}" = "0 passed, 0 failed, 4 skipped" ]
}

@test "wrong usage is exit status 2" {
	run -2 "$checkout/bootstrap"
	run -2 "$checkout/bootstrap" check extra
	run -0 "$checkout/bootstrap" --help
}

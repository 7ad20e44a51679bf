#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The builder of the guest kernel, with a stand-in for the kernel's source.

bats_require_minimum_version 1.5.0

setup() {
	guest=$BATS_TEST_TMPDIR/guest
	mkdir -p "$guest/patches"
	cp "$srcdir/emulator/guest/build-kernel" "$guest"
	printf 'CONFIG_A=y\nCONFIG_N=1000\nCONFIG_B=n\n# CONFIG_C is not set\n' >"$guest/kernel.config"
	export LONGHAUL_CACHE=$BATS_TEST_TMPDIR/cache
	export LONGHAUL_KERNEL_SOURCE=$BATS_TEST_TMPDIR/source.tar.xz
	unset LONGHAUL_JOBS TMPDIR
	make_source 'cat "$config" >>.config'
}

# A source whose merge_config.sh runs the command given; its "linux" is a copy of /bin/true.
make_source() {
	local tree=$BATS_TEST_TMPDIR/linux-source

	command -v xz >/dev/null || skip "xz is not installed (Debian package: xz-utils)"
	mkdir -p "$tree/scripts/kconfig"
	printf 'hello\n' >"$tree/greeting"
	cat >"$tree/Makefile" <<-'EOF'
		tinyconfig: ; echo 'CONFIG_TINY=y' >.config
		olddefconfig: ; sed -i '/=n$$/d' .config
		vmlinux: ; test ! -e broken
		linux: vmlinux ; cp /bin/true linux
		.PHONY: tinyconfig olddefconfig vmlinux
	EOF
	cat >"$tree/scripts/kconfig/merge_config.sh" <<-EOF
		#!/bin/sh
		# -m -O FOLDER BASE FRAGMENT
		cd "\$3" && config=\$5 && $1
	EOF
	chmod +x "$tree/scripts/kconfig/merge_config.sh"
	tar -cJf "$LONGHAUL_KERNEL_SOURCE" -C "$BATS_TEST_TMPDIR" linux-source
}

@test "the key is 16 hex digits and depends on source, options and patches" {
	key=$("$guest/build-kernel" --key)
	[[ $key =~ ^[0-9a-f]{16}$ ]]
	[ "$key" = "$("$guest/build-kernel" --key)" ]
	echo x >"$guest/patches/0001-x.patch"
	patched=$("$guest/build-kernel" --key)
	[ "$key" != "$patched" ]
	rm "$guest/patches/0001-x.patch"
	echo CONFIG_D=y >>"$guest/kernel.config"
	[ "$key" != "$("$guest/build-kernel" --key)" ]
	sed -i '$d' "$guest/kernel.config"
	[ "$key" = "$("$guest/build-kernel" --key)" ]
	echo >>"$LONGHAUL_KERNEL_SOURCE"
	[ "$key" != "$("$guest/build-kernel" --key)" ]
}

@test "--path names the place and fails until the kernel is there" {
	run -1 "$guest/build-kernel" --path
	path=$output
	[ "$path" = "$LONGHAUL_CACHE/guest-$("$guest/build-kernel" --key)/linux" ]
	run -0 --separate-stderr "$guest/build-kernel"
	[ "$output" = "$path" ]
	[ -x "$path" ]
	grep -qx CONFIG_TINY=y "${path%/*}/.config"
	run -0 "$guest/build-kernel" --path
	[ "$output" = "$path" ]
}

@test "a kernel that is there is not built again" {
	"$guest/build-kernel"
	run -0 --separate-stderr "$guest/build-kernel"
	[ -z "$stderr" ]
}

@test "two at once build one kernel" {
	"$guest/build-kernel" 2>"$BATS_TEST_TMPDIR/first" >/dev/null &
	"$guest/build-kernel" 2>"$BATS_TEST_TMPDIR/second" >/dev/null
	wait $!
	run -0 cat "$BATS_TEST_TMPDIR/first" "$BATS_TEST_TMPDIR/second"
	[ "$(grep -c 'compile' <<<"$output")" = 1 ]
}

@test "nothing but the result is left in the cache" {
	"$guest/build-kernel"
	run -0 ls -A "$LONGHAUL_CACHE"
	[ "$output" = "build-kernel.lock
guest-$("$guest/build-kernel" --key)" ]
}

@test "patches are applied" {
	printf -- '--- a/greeting\n+++ b/greeting\n@@ -1 +1 @@\n-hello\n+good day\n' >"$guest/patches/0001-x.patch"
	run -0 "$guest/build-kernel"
	printf -- '--- a/greeting\n+++ b/greeting\n@@ -1 +1 @@\n-goodbye\n+good day\n' >"$guest/patches/0001-x.patch"
	run -1 "$guest/build-kernel"
	[[ $output == *"failed: 2/5 patch; the full log is $LONGHAUL_CACHE/"* ]]
}

@test "options that did not take effect are named" {
	make_source 'sed -e "/CONFIG_A=/d" -e "s/1000/100/" "$config" >>.config; echo CONFIG_C=y >>.config'
	run -1 "$guest/build-kernel"
	[[ $output == *"CONFIG_A (wanted y, is n)"* ]]
	[[ $output == *"CONFIG_N (wanted 1000, is 100)"* ]]
	[[ $output == *"CONFIG_C (wanted n, is y)"* ]]
	[[ $output != *"CONFIG_B"* ]]
	run -1 "$guest/build-kernel" --path
}

@test "a failed build keeps its full log and says where" {
	touch "$BATS_TEST_TMPDIR/linux-source/broken"
	make_source 'cat "$config" >>.config'
	run -1 "$guest/build-kernel"
	log=$LONGHAUL_CACHE/build-kernel-$("$guest/build-kernel" --key).log
	[[ $output == *"failed: 4/5 compile"*"; the full log is $log" ]]
	grep -q '==> 1/5 unpack' "$log"
}

@test "a missing source is an error that names the package" {
	export LONGHAUL_KERNEL_SOURCE=$BATS_TEST_TMPDIR/none
	run -4 "$guest/build-kernel"
	[[ $output == *"$LONGHAUL_KERNEL_SOURCE is missing"*"apt-get install linux-source-6.12"* ]]
}

@test "wrong usage is exit status 2" {
	run -2 "$guest/build-kernel" --nonsense
	run -0 "$guest/build-kernel" --help
}

#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# longhaul shell: on a terminal, driven by python's pty, and with commands from a pipe.

bats_require_minimum_version 1.5.0
load run

setup() {
	cd "$BATS_TEST_TMPDIR"
	export TMPDIR=$BATS_TEST_TMPDIR SHELL=/bin/sh
	small=$srcdir/tests/guest/small.yaml
}

# longhaul shell on a terminal: on_terminal ARGUMENT... <<PYTHON. `send(bytes)`, `expect(bytes)`
# returns what came until then, `resize(rows, columns)`, `end()` returns the status and checks
# that the terminal is as it was; `pid` is longhaul.
on_terminal() {
	need_python
	timeout --kill-after=5 "$run_limit_s" python3 -c '
import fcntl, os, pty, select, signal, struct, sys, termios, time
pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
before, said = termios.tcgetattr(fd), b""
def send(keys):
    os.write(fd, keys)
def read():
    global said
    try:
        more = os.read(fd, 65536)
    except OSError:
        more = b""
    said += more
    return more
def expect(what, seconds=30):
    global said
    deadline = time.monotonic() + seconds
    while what not in said:
        left = deadline - time.monotonic()
        if left < 0 or not select.select([fd], [], [], left)[0] or not read():
            sys.exit("no %r in %r" % (what, said[-500:]))
    end = said.index(what) + len(what)
    out, said = said[:end], said[end:]
    return out
def resize(rows, columns):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    os.kill(pid, signal.SIGWINCH)
def end():
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            assert termios.tcgetattr(fd) == before, "the terminal is not as it was"
            return os.waitstatus_to_exitcode(status)
        if select.select([fd], [], [], 0.05)[0]:
            read()
exec(sys.stdin.read())' "$LONGHAUL" shell "$@"
}

@test "a terminal: its size, its name, Ctrl-C, jobs, status" {
	on_terminal "$small" west/0 <<-'END'
		resize(33, 101)
		expect(b"# ")
		send(b"stty size; tty; hostname\r")
		out = expect(b"west-0")
		assert b"33 101" in out and b"/dev/pts/" in out, out
		send(b"sleep 1000\r")
		expect(b"sleep 1000")
		send(b"\x03")
		expect(b"# ")
		resize(44, 55)
		send(b"while [ \"$(stty size)\" != \"44 55\" ]; do sleep 0.1; done; echo re\"\"sized\r")
		expect(b"resized")
		send(b"sleep 1000 & jobs; echo d\"\"one\r")
		assert b"Running" in expect(b"done")
		send(b"seq 1 30000; echo la\"\"st\r")
		assert b"\r\n30000\r\n" in expect(b"last")
		send(b"exit 7\r")
		assert end() == 7
	END
	[ -z "$(ls -d longhaul-exec-* 2>/dev/null)" ]
}

@test "the terminal is given back when the guest is killed, and when longhaul is ended" {
	own_kernel
	for what in guest TERM; do
		WHAT=$what on_terminal "$small" <<-'END'
			expect(b"# ")
			send(b"echo h\"\"ere\r")
			expect(b"here")
			assert termios.tcgetattr(fd) != before
			if os.environ["WHAT"] == "TERM":
			    os.kill(pid, signal.SIGTERM)
			    assert end() == 143
			else:
			    kernel = os.environ["LONGHAUL_GUEST_KERNEL"]
			    for p in filter(str.isdigit, os.listdir("/proc")):
			        try:
			            if os.readlink("/proc/%s/exe" % p) == kernel:
			                os.kill(int(p), signal.SIGKILL)
			        except OSError:
			            pass
			    assert end() == 1
		END
		wait_for 10 no_guest_left
	done
}

@test "commands come from a pipe, and it ends with them" {
	run -5 --separate-stderr timeout "$run_limit_s" "$LONGHAUL" shell "$small" <<-'END'
		hostname
		tty
		cat <<TEXT
		text
		TEXT
		echo error >&2
		exit 5
	END
	[ "$output" = $'east-0\nnot a tty\ntext' ]
	[[ $stderr == *error* ]]
	seq 1 100000 >numbers
	# bash leaves to cat what it has not read as commands
	{ echo cat; cat numbers; } | SHELL=/bin/bash timeout "$run_limit_s" "$LONGHAUL" shell "$small" east/1 >said
	cmp numbers said
	run -0 timeout "$run_limit_s" "$LONGHAUL" shell "$small" </dev/null
	[ -z "$output" ]
}

@test "longhaul-node runs a command in another node" {
	command -v ping >/dev/null || skip "ping is not installed (Debian package: iputils-ping)"
	run -0 --separate-stderr timeout "$run_limit_s" "$LONGHAUL" shell "$small" <<-'END'
		longhaul-node west-0 hostname
		longhaul-node west-0 ping -c 1 east-0 | grep -c ' bytes from '
		longhaul-node nowhere true || echo "status $?"
		hostname
	END
	echo "$output; $stderr"
	[ "$output" = $'west-0\n1\nstatus 2\neast-0' ]
	[[ $stderr == *"usage: longhaul-node"*"east-0 east-1 west-0"* ]]
}

@test "in virtual time waiting takes none" {
	run -0 timeout "$run_limit_s" "$LONGHAUL" shell --clock virtual "$small" <<<'sleep 86400; echo awake'
	[ "$output" = awake ]
}

#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# vpmm-pause, and programs that are paused under vpmm-run --pausable without knowing.
set -u

object=lib/.libs/libvpmm-preload.so
if [ ! -e "$object" ]; then
	echo "1..0 # SKIP built without a shared object"
	exit 0
fi

# The runtime of AddressSanitizer has to come first, and would find leaks in other people's programs.
case ${SANITIZE_CFLAGS-} in
*thread*)
	echo "1..0 # SKIP ThreadSanitizer cannot be preloaded into programs that were built without it"
	exit 0
	;;
*address*)
	LD_PRELOAD=$($CC -print-file-name=libasan.so)
	ASAN_OPTIONS=detect_leaks=0
	export ASAN_OPTIONS LD_PRELOAD
	;;
esac

. "$top_srcdir/tests/support/tap.sh"
program=tests/preload/run-program
case $(pwd) in
*' '*)
	VPMM_PRELOAD_OBJECT=$object
	export VPMM_PRELOAD_OBJECT
	;;
esac

# start OPTION ARGUMENTS...: runs the program until it has said something; its standard input is descriptor 3
start()
{
	rm -f "$work/input"
	mkfifo "$work/input"
	: >"$work/said"
	vpmm-run "$@" <"$work/input" >"$work/said" 2>"$work/complaints" &
	pid=$!
	exec 3>"$work/input"
	until [ -s "$work/said" ] || ! kill -0 $pid 2>/dev/null; do
		sleep 0.02
	done
}

# finish: lets it end, and complains if it does not end well
finish()
{
	exec 3>&-
	wait $pid || echo "exit status $?"
	cat "$work/complaints"
}

# state WORD MIB: complains unless the tag is paused or running, with so much mapped
state()
{
	run 0 vpmm-pause --status $pid
	grep -qE "^program +0 $1 .* $2( MiB| B) " "$work/out" || {
		echo "expected $1, and $2 mapped"
		cat "$work/out"
	}
}

verdict "a program is paused, waits, and goes on with its contents" "$(
	start --pausable "$program" plain=4x4 async=3x2 fill=7 sync say=ready line same=7 fill=8 sync say=after \
		line same=8
	state running 22.0
	for turn in 1 2 3; do
		run 0 vpmm-pause $pid; silent out; silent err; state paused 0
		run 0 vpmm-pause $pid; state paused 0
		[ $turn -ne 2 ] || echo >&3
		run 0 vpmm-pause --resume $pid; state running 22.0
		run 0 vpmm-pause --resume $pid
	done
	finish; says said after)"
verdict "work waits for the memory" "$(
	start --pausable "$program" plain=1x4 say=ready line fill=3 same=3 plain=1x2 say=after line
	run 0 vpmm-pause --drop $pid
	echo >&3
	sleep 0.2
	says said ready; ! grep after "$work/said"
	run 0 vpmm-pause --resume $pid
	tries=0
	until grep -q after "$work/said" || [ $tries -eq 100 ]; do
		sleep 0.02
		tries=$((tries + 1))
	done
	says said after; state running 6.00; finish)"
verdict "by the name of a tag" "$(VPMM_TAG=weights; export VPMM_TAG
	start --pausable "$program" plain=1x4 say=ready line
	run 1 vpmm-pause $pid program; says err "vpmm-pause: process $pid: the process has no tag \"program\""
	run 0 vpmm-pause --prepare $pid weights; run 0 vpmm-pause $pid weights
	run 0 vpmm-pause --status $pid; says out "weights "; says out paused
	run 0 vpmm-pause -r $pid weights; finish)"
verdict "a capture is not cut in two" "$(
	start --pausable "$program" plain=1x4 capture say=ready line
	run 1 vpmm-pause --wait=50ms $pid; says err "the program does not come to rest"
	state running 4.00; finish)"
verdict "nor is work that does not end" "$(
	start --pausable "$program" plain=1x4 fill=4 say=ready line same=4
	run 1 vpmm-pause --wait=50ms $pid; says err "the program does not come to rest"
	state running 4.00; finish)"
verdict "callers at the same time" "$(
	start --pausable "$program" plain=2x4 fill=5 sync say=ready line
	callers=
	for i in 1 2 3 4; do
		for option in --drop --resume --status; do
			vpmm-pause $option $pid >/dev/null 2>>"$work/callers" &
			callers="$callers $!"
		done
	done
	for caller in $callers; do
		wait $caller || echo "a caller ended with $?"
	done
	cat "$work/callers"
	run 0 vpmm-pause --resume $pid; finish)"
verdict "a process that ends meanwhile" "$(
	start --pausable "$program" plain=1x4 say=ready line
	kill -STOP $pid
	vpmm-pause $pid 2>"$work/err" &
	caller=$!
	# A caller that waits to be accepted has the name as well.
	until [ "$(grep -c "@vpmm-pause-[0-9]*-$pid$" /proc/net/unix)" -eq 2 ] || ! kill -0 $caller 2>/dev/null; do
		sleep 0.02
	done
	kill -KILL $pid
	wait $caller; [ $? -eq 1 ] || echo "expected exit status 1"
	says err "vpmm-pause: process $pid has ended meanwhile"
	exec 3>&-; wait $pid
	run 1 vpmm-pause $pid; says err "vpmm-pause: there is no process $pid")"
verdict "a process that cannot be paused" "$(
	start --top "$program" plain=1x4 say=ready line
	run 1 vpmm-pause $pid; says err "process $pid cannot be paused: it has no pool (yet)"; finish)"
verdict "only with 0 or 1" "$(run 2 env VPMM_PAUSABLE=often vpmm-run "$program" plain=1x4
	says err "vpmm-run: vpmm_opts_from_env: VPMM_PAUSABLE=often: expected off, on, none, 0 or 1"
	VPMM_PAUSABLE=often LD_PRELOAD=${LD_PRELOAD:+$LD_PRELOAD:}$object "$program" plain=1x4 2>"$work/err"
	says err "libvpmm-preload: VPMM_PAUSABLE=often: expected off, on, none, 0 or 1")"
# A terminal would obey what another user's process answers.
cat >"$work/answer.py" <<'END'
import os, signal, socket, struct
signal.alarm(60)
server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
server.bind(f"\0vpmm-pause-{os.stat('/proc/self/ns/pid').st_ino}-{os.getpid()}")
server.listen()
print(os.getpid(), flush=True)
for err, count in (0, 1), (-5, 0):
    connection = server.accept()[0]
    connection.recv(4096)
    row = struct.pack("=64s16siI5Q", b"odd\n\x1b[2J", b"host", 0, 1, 0, 0, 0, 0, 0)
    connection.send(struct.pack("=QiIII1024s", 0x326573756170706D, err, 0, count, 0, b"no\x1b[2J") + row * 64)
END
if "${PYTHON:-python3}" -c '' 2>/dev/null; then
	verdict "an answer with control characters" "$(
		: >"$work/said"
		"${PYTHON:-python3}" "$work/answer.py" >"$work/said" &
		tries=0
		until [ -s "$work/said" ] || [ $tries -eq 200 ]; do
			sleep 0.02
			tries=$((tries + 1))
		done
		run 0 vpmm-pause --status "$(cat "$work/said")"; says out "odd??[2J "
		run 1 vpmm-pause "$(cat "$work/said")"; says err ": no?[2J"
		wait)"
else
	skip "an answer with control characters" "there is no Python"
fi

# Two containers with one network, in each of which a process has the same number.
inside=
for try in "unshare --pid --fork" "unshare --user --map-root-user --pid --fork"; do
	[ -n "$inside" ] || ! $try true 2>/dev/null || inside=$try
done
hold()
{
	VPMM_BACKEND=host VPMM_PAUSABLE=1 $inside tests/support/hold-pools 1
}
if [ -n "$inside" ]; then
	verdict "two processes of one number" "$(
		rm -f "$work/input"; mkfifo "$work/input"
		: >"$work/said"
		hold <"$work/input" >"$work/said" 2>"$work/complaints" &
		pid=$!
		exec 3>"$work/input"
		until [ -s "$work/said" ] || ! kill -0 $pid 2>/dev/null; do
			sleep 0.02
		done
		hold </dev/null >"$work/out" 2>"$work/err"; silent err
		cmp "$work/said" "$work/out"
		finish)"
else
	skip "two processes of one number" "this user gets no namespace of processes"
fi

# Options
verdict "--help names every option" "$(run 0 vpmm-pause --help
	for option in resume prepare status drop wait help version; do says out "--$option"; done; silent err)"
verdict "--version" "$(run 0 vpmm-pause --version; says out "vpmm-pause "; silent err)"
# refuses SENTENCE ARGUMENTS
refuses()
{
	sentence=$1
	shift
	verdict "$sentence" "$(run 2 vpmm-pause "$@"; says err "vpmm-pause: $sentence"; silent out)"
}
refuses "no process given"
for pid in x "" 0 5x 2147483648; do
	refuses "\"$pid\" is no process id" "$pid"
done
# Behind --, words that begin like options are arguments.
refuses '"-5" is no process id' -- -5
refuses 'unexpected argument "-b"' -- 1 -a -b
refuses 'unexpected argument "b"' 1 a b
refuses "--resume, --prepare and --status: expected one of them" --resume --status 1
refuses "--drop: only for a pause" --drop --resume 1
refuses "--wait: only for a pause" --wait=5s --status 1
refuses "the name of a tag has 1 to 63 bytes" 1 ""
refuses '--wait: "5" is no time with a unit' --wait=5 1
verdict "not beside --monitor" "$(run 2 vpmm-run --monitor --pausable ls; says err "--pausable: with --monitor")"
echo "1..$count"

#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# A test that does not end is stopped, and what it was doing tells a deadlock from a machine under load.
. "${top_srcdir:-.}/tests/support/tap.sh"

limited=${top_builddir:-.}/tests/support/limited

# stopped WHAT COMMAND...: complains unless it is stopped after a second, and said to be doing that
stopped()
{
	what=$1
	shift
	run 124 "$limited" 1 "$@"
	grep -q "^# stopped after 1 s; the load of the machine is [0-9]" "$work/out" || echo "the load is not told"
	grep -q "^# process [0-9]*, thread [0-9]* ([a-z]*): $what" "$work/out" || cat "$work/out"
	grep -v "^#" "$work/out"
}

left_in()
{
	TMPDIR=$work/own
	export TMPDIR
	mkdir "$TMPDIR"
	run 1 "$limited" 60 sh -c ': >"$TMPDIR/a"; : >"$XDG_RUNTIME_DIR/b"; mkdir -p "$TMPDIR/c/d"; ln -s / "$TMPDIR/e"'
	[ "$(sort "$work/out" | sed 's/^# left in .*: //' | tr -d '\n')" = abce ] || cat "$work/out"
	run 3 "$limited" 60 sh -c ': >"$TMPDIR/a"; exit 3'
	says out ": a"
	run 0 "$limited" 60 sh -c ': >"$TMPDIR/vgdb-pipe-1"; mkdir "$TMPDIR/ccache-tmp"; : >"$TMPDIR/a"; rm "$TMPDIR/a"'
	silent out
	ls -A "$TMPDIR"
}

echo 1..5
verdict "a program that sleeps" "$(stopped "asleep, state S, ran 0 % of the last second, in .*, system call [0-9]" sleep 60)"
verdict "a program that spins" "$(stopped "running, state R, ran [0-9]* %" sh -c 'while :; do :; done')"
verdict "what it has started" "$(stopped "asleep" sh -c 'sleep 60; :')"
verdict "one that ends in time" "$(run 3 "$limited" 60 sh -c 'exit 3'; run 137 "$limited" 60 sh -c 'kill -9 $$'
	run 0 "$limited" 60 echo done; [ "$(cat "$work/out")" = done ] || cat "$work/out")"
verdict "one that leaves something fails, and nothing stays" "$(left_in)"

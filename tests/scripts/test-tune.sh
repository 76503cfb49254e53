#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# The evidence for the policy: the same figures each time, and an error for what tune cannot run.
set -u

. "$top_srcdir/tests/support/tap.sh"

tune=$top_builddir/tests/tune/tune
if [ -n "$SANITIZE_CFLAGS" ]; then
	echo "1..0 # SKIP the figures are the same with sanitizers, and take long"
	exit 0
fi

# figures ARGUMENTS: the ratios of some programs
figures()
{
	"$tune" --each --seeds=1 --only="last in" --only="hand on" "$@"
}

verdict "the same figures twice, with one process and two" "$(
	figures --jobs=1 >"$work/first" 2>&1 || cat "$work/first"
	figures --jobs=2 >"$work/second" 2>&1 || cat "$work/second"
	cmp "$work/first" "$work/second")"
verdict "what is taken is no less than what is live" "$(
	awk '/^(last in|streams that)/ { n++; sub(/.* 1  +/, ""); if ($1 < 1) print } END { if (n != 2) print n " programs" }' \
		"$work/first")"
# row NAME: the figures of one program, among those that come on standard input
row()
{
	sed -n "s/^$1  *//p"
}

verdict "a written program is the same program" "$(
	run 0 "$tune" --write="$work/new/traces" --seeds=1 --only="last in" --only="hand on"
	silent out
	ls "$work/new/traces" >"$work/files"
	printf '%s\n' last-in-first-out-1.trace.gz streams-that-hand-on-1.trace.gz | cmp - "$work/files"
	"$tune" --each --seeds=1 --only="last-in-first-out-1" "$work/new/traces/last-in-first-out-1.trace.gz" \
		>"$work/read" 2>&1 || cat "$work/read"
	row "last in first out 1" <"$work/first" >"$work/generated"
	row "last-in-first-out-1" <"$work/read" >"$work/replayed"
	[ -s "$work/generated" ] || echo "no figures"
	cmp "$work/generated" "$work/replayed")"
verdict "vpmm-replay reads a written program" "$(
	run 0 "$top_builddir/tools/vpmm-replay" --backend=host --json "$work/new/traces/streams-that-hand-on-1.trace.gz"
	says out '"errors": 0, "streams": 4')"
verdict "a copy of a trace is written" "$(
	run 0 "$tune" --write="$work/copies" --seeds=1 --only="stark_prover, sizes" \
		"$top_srcdir/tests/traces/stark_prover.trace.gz"
	run 0 "$tune" --write="$work/again" --seeds=1 --only="stark_prover-sizes-1" \
		"$work/copies/stark_prover-sizes-1.trace.gz"
	ls "$work/again" >"$work/files"
	printf '%s\n' stark_prover-sizes-1-lifetimes-1.trace.gz stark_prover-sizes-1-sizes-1.trace.gz \
		stark_prover-sizes-1.trace.gz | cmp - "$work/files")"
# beside ARGUMENTS: the figures beside the model of the driver's allocator, without a GPU
beside()
{
	python3 "$top_srcdir/tests/tune/beside.py" --backend=host --allocators=vpmm,async \
		--replay="$top_builddir/tools/vpmm-replay" "$@"
}

if python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
	verdict "a written program on two allocators" "$(
		run 0 beside --rounds=2 --log="$work/log" "$work/new/traces/last-in-first-out-1.trace.gz"
		[ "$(wc -l <"$work/log")" -eq 8 ] || { echo "expected two passes of two, twice"; cat "$work/log"; }
		awk '/^last-in-first-out-1/ && $2 >= 1 && $3 >= 1 { n++ } END { if (n != 1) print "no row" }' "$work/out")"
	verdict "a program that cannot be read, beside one that can" "$(
		run 1 beside /dev/null "$work/new/traces/last-in-first-out-1.trace.gz"
		says out "vpmm failed on /dev/null"
		says out "2 programs; ")"
else
	verdict "a written program on two allocators # SKIP no Python" ""
fi
verdict "programs for a folder that cannot be" "$(
	run 2 "$tune" --write=/dev/null/traces --seeds=1 --only="last in"; says err "/dev/null/traces"; silent out)"
verdict "no seeds" "$(run 2 "$tune" --seeds=0; says err "--seeds"; silent out)"
verdict "a trace that is none" "$(run 2 "$tune" /dev/null; says err "/dev/null"; silent out)"
echo "1..$count"

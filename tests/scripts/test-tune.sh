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
	"$tune" --each --seeds=1 --only="last in" --only="hand on" --only="prefetch, 6" --only="buffers, 2" \
		--only="pipeline" "$@"
}

verdict "the same figures twice, with one process and two" "$(
	figures --jobs=1 >"$work/first" 2>&1 || cat "$work/first"
	figures --jobs=2 >"$work/second" 2>&1 || cat "$work/second"
	cmp "$work/first" "$work/second")"
verdict "what is taken is no less than what is live" "$(
	awk '/^(last in|streams that hand)/ { n++; sub(/.* 1  +/, ""); if ($1 < 1) print } END { if (n != 2) print n " programs" }' \
		"$work/first")"
# overlap COLUMN NAME: of a program whose streams overlap
overlap()
{
	awk -v column="$1" -v name="$2 1" 'index($0, name) == 1 { $0 = substr($0, length(name) + 1); print $column }' \
		"$work/first"
}

# holds EXPRESSION: of numbers
holds()
{
	awk "BEGIN { exit !($1) }" || echo "not $1"
}

# A wait can let other work go first, so a program can be faster with it by a little.
verdict "a pool takes no less time than memory without a bound, and no less memory than is live" "$(
	for name in "prefetch, 6 products" "double buffers, 2 products" "pipeline of five streams"; do
		holds "$(overlap 1 "$name") > 0.99 && $(overlap 3 "$name") > 0.99"
		holds "$(overlap 4 "$name") >= 1 && $(overlap 5 "$name") >= 1"
	done)"
verdict "a program that frees before it asks for more needs more than one that frees after" \
	"$(holds "$(overlap 5 "prefetch, 6 products") > 1.1 && $(overlap 5 "double buffers, 2 products") < 1.05")"
verdict "a table of the rules: each number once, with what it differs by if its rule is off" "$(
	run 0 "$tune" --rules --seeds=1 --jobs=2 --only="last in"
	sed -n 's/^TUNING(\([a-z_]*\), .*/\1/p' "$top_srcdir/lib/policy/tuning.h" | sort >"$work/numbers"
	awk '/^rule/ { table = 1; next } table && !/^all rules/ { print $1 }' "$work/out" | sort >"$work/rows"
	[ -s "$work/rows" ] || echo "no row"
	diff "$work/numbers" "$work/rows"
	awk '/^(extents_least|initial_extents) / { print ($NF > 1) }' "$work/out" | tr '\n' ' ' | sed 's/^1 0 $//')"
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
	verdict "a program that no rule was chosen on" "$(
		run 0 python3 "$top_srcdir/tests/tune/unseen.py" --best-fit "$work/unseen"
		[ "$(wc -l <"$work/out")" -eq "$(ls "$work/unseen" | wc -l)" ] || echo "not a line for each"
		awk '$2 <= 0 || $4 < 1 { print "out of range: " $0 }' "$work/out"
		run 0 "$tune" --seeds=1 --each --only=hash_join "$work/unseen/hash_join.trace"
		row hash_join <"$work/out" | grep -q . || echo "no row")"
	verdict "a program that cannot be read, beside one that can" "$(
		run 1 beside /dev/null "$work/new/traces/last-in-first-out-1.trace.gz"
		says out "vpmm failed on /dev/null"
		says out "2 programs; ")"
else
	verdict "a written program on two allocators # SKIP no Python" ""
fi
verdict "programs for a folder that cannot be" "$(
	run 2 "$tune" --write=/dev/null/traces --seeds=1 --only="last in"; says err "/dev/null/traces"; silent out)"
verdict "a program that leaves blocks to its next pass settles" "$(
	for when in before after; do
		"$tune" --each --keep=$when --seeds=1 --only="training" >"$work/out" 2>&1 || cat "$work/out"
		row "training in batches of six sizes 1" <"$work/out" | awk '{ n++; if ($5 != 0) print } END { if (n != 1) print "no row" }'
	done)"
verdict "blocks that are left until no such time" "$(run 2 "$tune" --keep=always; says err "--keep=always"; silent out)"
verdict "no seeds" "$(run 2 "$tune" --seeds=0; says err "--seeds"; silent out)"
verdict "a trace that is none" "$(run 2 "$tune" /dev/null; says err "/dev/null"; silent out)"
echo "1..$count"

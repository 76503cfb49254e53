#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# vpmm-replay --picture: files that viewers accept, with the numbers of the report, and what is refused.
set -u

. "$top_srcdir/tests/support/tap.sh"
trace=$top_srcdir/tests/traces/pipeline_streams.trace.gz
VPMM_BACKEND=host
export VPMM_BACKEND
printf '10 a 1 3000000 0\n20 a 2 100 1\n30 f 1 3000000 1\n2000050 f 2 100 0\n' >"$work/two.trace"

# draws FILE ARGUMENTS: a picture, well-formed where xmllint can tell, of less than 2 MB, that loads nothing
draws()
{
	picture=$work/$1
	shift
	run 0 vpmm-replay --json --picture="$picture" "$@"
	[ -s "$picture" ] && [ "$(wc -c <"$picture")" -lt 2000000 ] || ls -l "$picture"
	! command -v xmllint >/dev/null || xmllint --nonet --noout "$picture" 2>&1
	grep -oE '(src|href)="[^"]{0,12}' "$picture" | grep -v '="data:image'
}

# same STATISTIC ATTRIBUTE: the picture has the number of the report's last pass
same()
{
	reported=$(sed -n 's/.*"'"$1"'": \([0-9]*\).*/\1/p' "$work/out" | tail -n 1)
	[ "$reported" ] && grep -q " data-peak-$2=\"$reported\"" "$picture" ||
		echo "$1 is $reported, but the picture has $(grep -o 'data-peak-[^>]*' "$picture")"
}

# highest SERIES: its highest step in the page
highest()
{
	sed -n 's/^.*{"name": "'"$1"'", "most": \[\([0-9,]*\)\].*/\1/p' "$picture" | tr ',' '\n' | sort -n | tail -n 1
}

peaks()
{
	same peak_live live
	same peak_taken taken
}

# refuses NAME SENTENCE ARGUMENTS
refuses()
{
	name=$1 sentence=$2
	shift 2
	verdict "$name" "$(run 2 vpmm-replay "$@"; says err "vpmm-replay: --picture: $sentence")"
}

for kind in svg html; do
	verdict "$kind" "$(draws p.$kind --lag=1ms "$trace"; peaks)"
	verdict "$kind, verified, in three passes" "$(draws p.$kind --verify --repeat=3 "$trace"; peaks
		says p.$kind "pass 3")"
	verdict "$kind of a few operations" "$(draws p.$kind "$work/two.trace"; peaks)"
	verdict "$kind of a pool without memory" "$(printf '1 a 1 0 0\n2 f 1 0 0\n' >"$work/zero.trace"
		draws p.$kind "$work/zero.trace"; peaks)"
	verdict "$kind of a trace with an odd name" "$(name=$(printf 'a <&"\001]]>\377.trace')
		cp "$work/two.trace" "$work/$name"; draws p.$kind "$work/$name"; peaks)"
done
verdict "the curves reach the peaks" "$(draws p.html --lag=1ms "$trace"
	for pair in allocated:live libvpmm:taken cudaMalloc:malloc; do
		grep -q " data-peak-${pair#*:}=\"$(highest "${pair%:*}")\"" "$picture" ||
			echo "${pair%:*} is $(highest "${pair%:*}") at most"
	done)"
verdict "what is compared is measured" "$(draws p.svg --lag=1ms "$trace"
	run 0 vpmm-replay --json --lag=1ms --allocator=malloc "$trace"
	same peak_taken malloc)"
for kind in svg html; do
	verdict "$kind: no model stands for cudaMallocAsync" "$(draws p.$kind --lag=1ms "$trace"
		grep -o "[^<>\"]*cudaMallocAsync[^<>\"]*" "$picture")"
done
verdict "requests that fail are told in the picture" "$(
	run 1 vpmm-replay --limit=512M --picture="$work/p.svg" "$trace"; says p.svg " errors"; says out " errors; the first")"

refuses "another ending" "x.png: expected a name that ends in .svg or .html" --picture=x.png "$work/two.trace"
refuses "a file that cannot be made" "$work/none/x.svg: No such file or directory" --picture="$work/none/x.svg" \
	"$work/two.trace"
for kind in svg html; do
	ln -s /dev/full "$work/full.$kind"
	refuses "a full disk, $kind" "writing $work/full.$kind failed: No space left on device" \
		--picture="$work/full.$kind" "$work/two.trace"
done
refuses "two traces" "expected one trace" --picture="$work/p.svg" "$work/two.trace" "$work/two.trace"
refuses "another allocator" "expected --allocator=vpmm" --picture="$work/p.svg" --allocator=async "$work/two.trace"
echo "1..$count"

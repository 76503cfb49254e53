#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# vpmm-bench, as a user meets it: options, each benchmark, what it prints. How fast anything is, is not judged here.
set -u

. "$top_srcdir/tests/support/tap.sh"
VPMM_BACKEND=host
export VPMM_BACKEND

# bench STATUS ARGUMENTS: runs it, and complains if it does not exit with this status
bench()
{
	expected=$1
	shift
	run "$expected" vpmm-bench --quick "$@"
}

# refuses NAME SENTENCE ARGUMENTS
refuses()
{
	name=$1 sentence=$2
	shift 2
	verdict "$name" "$(bench 2 "$@"; says err "vpmm-bench: $sentence"; silent out)"
}

# line CASE [METRIC]: the objects of a case
line()
{
	grep -F "\"case\": \"$1\"" "$work/out" | grep -F "\"metric\": \"${2:-}"
}

# median CASE METRIC CONTENDER
median()
{
	line "$1" "$2" | sed -n 's/.*"'"$3"'": {"rounds": [0-9]*, "median": \([0-9.]*\).*/\1/p'
}

# measured CASE METRIC CONTENDER...: each has a figure above 0, and least <= median <= most
measured()
{
	what=$1 metric=$2
	shift 2
	for who; do
		line "$what" "$metric" | sed -n 's/.*"'"$who"'": {\([^}]*\)}.*/\1/p' |
		sed 's/"rounds": \(.*\), "median": \(.*\), "least": \(.*\), "most": \([0-9.]*\).*/\1 \2 \3 \4/' |
		awk -v name="$what, $metric, $who" '
			{ n++ }
			$1 < 1 || $2 <= 0 || $3 > $2 || $2 > $4 { print name ": figures " $0 }
			END { if (n != 1) print name ": " n + 0 " lines, expected 1" }'
	done
}

# is CASE METRIC CONTENDER VALUE
is()
{
	[ "$(median "$1" "$2" "$3")" = "$4" ] || echo "$1, $2, $3 is $(median "$1" "$2" "$3"), expected $4"
}

printf '10 a 1 3000000 0\n20 a 2 100 1\n30 f 1 3000000 1\n2000050 f 2 100 0\n' >"$work/two.trace"
printf '1 a 1 8 0\n2 x 1 8 0\n' >"$work/bad.trace"

# Options
verdict "--help names every option" "$(bench 0 --help
	for option in backend cold json limit quick regions rounds threads version help; do says out "--$option"; done; silent err)"
verdict "--version" "$(bench 0 --version; says out "vpmm-bench "; silent err)"
for option in help version; do
	verdict "--$option into a full disk" "$(vpmm-bench --$option >/dev/full 2>"$work/err"
		[ $? -eq 2 ] || echo "expected exit status 2"
		says err "vpmm-bench: writing the $option failed: No space left on device")"
done
for option in "" --json; do
	verdict "a full disk${option:+, $option}" "$(vpmm-bench $option --quick pair >/dev/full 2>"$work/err"
		[ $? -eq 2 ] || echo "expected exit status 2"
		says err "vpmm-bench: writing the figures failed: No space left on device")"
done
# Later lines cannot be written either, so there are no more errors of benchmarks.
verdict "nothing is measured once a line is lost" "$(
	mkfifo "$work/lost"
	exec 8<>"$work/lost" 9>"$work/lost" 8<&-
	trap '' PIPE
	VPMM_LIMIT=16M vpmm-bench --json --quick grow >&9 2>"$work/err"
	[ $? -eq 2 ] || echo "expected exit status 2"
	says err "vpmm-bench: writing the figures failed: Broken pipe"
	[ "$(grep -c "vpmm_malloc" "$work/err")" -eq 1 ] || cat "$work/err")"
refuses "unknown option" "Unknown option --fast" --fast
refuses "unknown benchmark" '"pairs" is no benchmark; there are all, pair, live, small, ' pairs
refuses "unknown backend" '--backend: "gpu": expected cuda, host or auto' --backend=gpu
refuses "bad limit" '--limit: "1MB" is no number of bytes' --limit=1MB
refuses "no limit" '--limit: expected at least one byte' --limit=0
refuses "no round" '--rounds: expected a number from 1 to 99' --rounds=0
refuses "fewer rounds than none" '--rounds: expected a number from 1 to 99' --rounds=-1
refuses "too many threads" '--threads: expected a number from 1 to 64' --threads=65
refuses "too few regions" '--regions: expected a number from 1001' --regions=1000
refuses "absent trace" "$work/none.trace: No such file or directory" replay "$work/none.trace"
refuses "damaged trace" "$work/bad.trace:2: the op is" pair replay "$work/bad.trace"
VPMM_PAGE_SIZE=2Q
export VPMM_PAGE_SIZE
refuses "bad variable" "vpmm_opts_from_env: VPMM_PAGE_SIZE=2Q" pair
unset VPMM_PAGE_SIZE

# Each benchmark
verdict "pair" "$(bench 0 --json pair; silent err
	for size in "512 B" "1 MiB" "2 MiB" "1 GiB"; do
		measured "$size" 'pair"' vpmm async
		measured "$size" "pair, default stream" vpmm async
	done)"
verdict "live" "$(bench 0 --json live; silent err; measured "256 live" pair vpmm async
	measured "256 live, settled" pair vpmm async)"
verdict "small" "$(bench 0 --json small; silent err; measured pair pair vpmm async
	measured "1,000 live" pair vpmm async)"
verdict "cold" "$(bench 0 --json --cold pair live small --rounds=1; silent err; measured "1 MiB" 'pair"' vpmm async
	measured "256 live" pair vpmm async; measured "1,000 live" pair vpmm async; says out '"cold": true')"
verdict "cold, in words" "$(bench 0 --cold --rounds=1 small; silent err; says out "reads and writes 4 MiB")"
verdict "threads" "$(bench 0 --json --threads=5 threads; silent err
	for n in "1 thread" "2 threads" "4 threads" "5 threads"; do
		measured "$n" "pair, own stream" vpmm async
		measured "$n" "pair, per-thread stream" vpmm async
	done
	[ "$(wc -l <"$work/out")" -eq 8 ] || echo "more threads than were allowed")"
verdict "grow" "$(bench 0 --json --limit=3G grow; silent err
	for size in "2 MiB" "1 GiB"; do measured "by $size" "a GiB" vpmm async; done)"
verdict "limit beyond the device" "$(VPMM_HOST_CAPACITY=3G bench 0 --json --rounds=1 --limit=100000T grow; silent err
	measured "by 1 GiB" "a GiB" vpmm async)"
verdict "harvest remaps, and takes no more than a hundredth in excess" "$(bench 0 --json harvest; silent err
	for size in "2 MiB" "64 MiB"; do
		measured "of $size" "a GiB" vpmm async
		measured "of $size" remapped vpmm
		median "of $size" "taken / live" vpmm | awk '!($1 >= 1 && $1 <= 1.01) { print "taken / live is " $1 }'
	done)"
verdict "resize takes no more than the block" "$(bench 0 --json --limit=6G resize; silent err
	for case in "1.5 to 3 GiB" "from 2 MiB by half" "growable by 1 GiB" "growable by 64 MiB"; do
		measured "$case" "a GiB" vpmm
		median "$case" "taken / size" vpmm | awk '!($1 >= 1 && $1 <= 1.05) { print "taken / size is " $1 }'
	done)"
verdict "shared" "$(bench 0 --json shared; silent err
	for case in "first touch" "read on the host" "read on the device" "fetch by touches" "to the device" \
		"to the host" "one page"; do
		measured "$case" "" vpmm pinned
	done
	measured "touch, memory kept" "" vpmm; says out '"unit": "GB/s"')"
verdict "shared, by signals" "$(VPMM_SHARED_TOUCH=signal bench 0 --json shared; silent err
	measured "one page" touch vpmm pinned; says out '"note": "touches are noticed by SIGSEGV')"
verdict "ratio of rates is of times" "$(bench 0 --json shared
	awk -v v="$(median "to the host" move vpmm)" -v p="$(median "to the host" move pinned)" \
		-v r="$(sed -n 's/.*"to the host".*"ratio": \([0-9.]*\)}$/\1/p' "$work/out")" \
		'BEGIN { h = 0.00005001
			if (r == "" || r < (p - h) / (v + h) - h || r > (p + h) / (v - h) + h)
				print "ratio " r ", not " p " / " v }')"
verdict "shared, in words" "$(bench 0 shared; silent err; says out "   vpmm     model   ratio"; says out " GB/s"
	awk 'length > 79 { print "too wide: " $0 }' "$work/out")"
verdict "regions" "$(bench 0 --json --regions=2000 regions; silent err
	measured "1,000 live" pair vpmm async; measured "2,000 live" pair vpmm async
	measured "2,000 live" "many / thousand" vpmm async)"
verdict "replay" "$(bench 0 --json replay "$work/two.trace"; silent err
	for pass in 1 2; do measured "two #$pass" wall vpmm async; measured "two #$pass" "taken / live" vpmm; done
	measured "two #1" creates vpmm; is "two #2" creates vpmm 0.0000; is "two #2" "maps / mallocs" vpmm 0.0000)"
verdict "real program" "$(bench 0 --json replay "$top_srcdir/tests/traces/pipeline_streams.trace.gz"; silent err
	measured "pipeline_streams #1" "driver / trace" vpmm; measured "pipeline_streams #2" wall vpmm async)"
verdict "a name that a column has no room for" "$(
	cp "$work/two.trace" "$work/a-name-of-fifty-columns-that-is-longer-than-others.trace"
	bench 0 --rounds=1 replay "$work"/a-name*.trace; says out "  a-name-of-fifty- #1 "; says out "  a-name-of-fifty- #2 "
	awk 'length > 79 { print "too wide: " $0 }' "$work/out"
	bench 0 --rounds=1 --json replay "$work"/a-name*.trace
	measured "a-name-of-fifty-columns-that-is-longer-than-othe #2" wall vpmm async)"
verdict "several benchmarks, in their order" "$(bench 0 --json --rounds=1 replay "$work/two.trace"
	bench 0 --json --rounds=1 small pair; silent err
	[ "$(sed 's/{"benchmark": "\([a-z]*\)".*/\1/' "$work/out" | uniq | tr '\n' ' ')" = "pair small " ] ||
		cat "$work/out")"

# What is printed
verdict "one object on a line" "$(bench 0 --json --rounds=1 pair harvest; silent err
	pair='"[a-z_]+": ("[^"\\]*"|[0-9]+(\.[0-9]+)?)'
	[ "$(grep -cvE "^\{$pair(, $pair|, \"[a-z]+\": \{$pair(, $pair)*\})*\}\$" "$work/out")" -eq 0 ] ||
		cat "$work/out")"
verdict "keys" "$(bench 0 --json --rounds=2 live
	for key in benchmark case number metric backend device driver_version version unit vpmm async rounds \
		median least most slowest_us ratio; do
		says out "\"$key\": "
	done
	says out '"rounds": 2,'; says out '"backend": "host"')"
verdict "ratio is vpmm to async" "$(bench 0 --json --rounds=1 live
	awk -v v="$(median "256 live" pair vpmm)" -v a="$(median "256 live" pair async)" \
		-v r="$(sed -n 's/.*"256 live".*"ratio": \([0-9.]*\)}$/\1/p' "$work/out")" \
		'BEGIN { h = 0.00005001	# each of the three is rounded to four decimals
			if (r == "" || r < (v - h) / (a + h) - h || r > (v + h) / (a - h) + h)
				print "ratio " r ", not " v " / " a }')"
verdict "table" "$(bench 0 --rounds=1 all replay "$work/two.trace"; silent err
	for name in pair live small threads grow harvest resize shared regions replay; do says out "$name: "; done
	says out "It is no driver"; says out "two #2"
	awk 'length > 79 { print "too wide: " $0 }' "$work/out")"
verdict "a newcomer is told of the model" "$(bench 0 --rounds=1 live; says out "   vpmm     model   ratio"
	says out "ratio    vpmm / model: below 1, vpmm takes less")"

# What cannot run, and what goes wrong
verdict "no trace" "$(bench 0 replay; says out "skipped: no trace was named"; silent err)"
verdict "too little memory" "$(bench 0 --json --limit=1G pair live
	says out '"skipped": "needs up to 4.00 GiB, and --limit is 1.00 GiB"'
	measured "2 MiB" 'pair"' vpmm async)"
verdict "no more mappings than the kernel allows" "$(run 0 vpmm-bench --rounds=1 grow regions; silent err
	grep error "$work/out")"
verdict "an error keeps within its column" "$(VPMM_LIMIT=16M bench 1 grow
	says err "try this: "; says out "  try this: "; grep "^try" "$work/out"
	awk 'length > 79 { print "too wide: " $0 }' "$work/out")"
verdict "the pool switched off" "$(VPMM_PAGE_SIZE=18446744073709551615 bench 0 harvest resize regions
	says out "skipped: the pool is switched off by its page size"; silent err)"
verdict "too few regions fit" "$(VPMM_HOST_CAPACITY=1G bench 0 regions
	says out "skipped: there is room for "; silent err)"
verdict "too little memory for a range" "$(bench 0 --json --limit=10M shared; silent err
	says out '"case": "all"'; says out '"skipped": "needs up to')"
verdict "errors of a range" "$(VPMM_LIMIT=30M bench 1 --json shared
	says err "vpmm-bench: shared, all, vpmm: "; says out '"contender": "vpmm", "error": "'
	measured "to the host" move pinned)"
verdict "errors" "$(VPMM_LIMIT=512M bench 1 --json --limit=4G grow
	says err "vpmm-bench: grow, by 2 MiB, vpmm: vpmm_malloc"
	says out '"contender": "vpmm", "error": "vpmm_malloc')"
verdict "errors in the table" "$(VPMM_LIMIT=512M bench 1 --limit=4G grow; says out "error: vpmm: vpmm_malloc"
	says out " errors, printed where they happened.")"
verdict "errors of a replay" "$(printf '1 a 1 4294967296 0\n' >"$work/big.trace"
	VPMM_HOST_CAPACITY=512M bench 1 --json replay "$work/big.trace"
	says err "vpmm-bench: $work/big.trace:1: allocation: vpmm_malloc"; says out '"error": "1 error"')"

# On the suite's own driver, all three take part.
fake=${FAKE_CUDA_DIR:-}/fake/.libs
on_fake()
{
	LD_LIBRARY_PATH=$fake${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
	export LD_LIBRARY_PATH
	bench 0 --json --backend=auto --rounds=1 --limit=16G --regions=1200 --threads=1 \
		pair live small threads grow harvest regions replay "$work/two.trace"
	silent err
	says out '"backend": "cuda"'
	measured "2 MiB" 'pair"' vpmm async malloc
	measured "256 live" pair vpmm async malloc
	measured "1 thread" "pair, own stream" vpmm async malloc
	measured "1 thread" "pair, per-thread stream" vpmm async malloc
	measured "by 64 MiB" "a GiB" vpmm async malloc
	measured "of 16 MiB" "a GiB" vpmm async malloc
	measured "1,200 live" pair vpmm async malloc
	measured "two #1" wall vpmm async malloc
	# What is copied is in this machine's memory.
	bench 0 --json --backend=cuda --rounds=1 --limit=512M resize
	measured "from 2 MiB by half" "a GiB" vpmm async malloc
	measured "from 2 MiB by half" "taken / size" vpmm async
	says out '"case": "growable by 1 GiB"'
	says out '"skipped": "needs up to'
	# This driver cannot stop streams.
	bench 0 --json --backend=cuda --rounds=1 shared
	says out '"case": "all"'
	says out '"skipped": "vpmm_shared_alloc: the CUDA driver has no '
	bench 0 --backend=cuda --rounds=1 shared
	says out "   vpmm    pinned     plain   ratio"
	bench 0 --backend=cuda --rounds=1 live
	says out "   vpmm     async    malloc   ratio"
}
if [ -e "$fake/libcuda.so.1" ]; then
	verdict "cuda" "$(on_fake)"
else
	count=$((count + 1))
	echo "ok $count - cuda # SKIP no $fake/libcuda.so.1"
fi
if vpmm-info --backend=cuda >/dev/null 2>&1; then
	count=$((count + 1))
	echo "ok $count - cuda without a device # SKIP there is one"
else
	refuses "cuda without a device" "vpmm_pool_create: " --backend=cuda pair
fi
echo "1..$count"

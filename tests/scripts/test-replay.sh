#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# vpmm-replay, as a user meets it: options, traces good and damaged, what it reports.
set -u

. "$top_srcdir/tests/support/tap.sh"
traces=$top_srcdir/tests/traces
VPMM_BACKEND=host
export VPMM_BACKEND

# replay STATUS ARGUMENTS: runs it, and complains if it does not exit with this status
replay()
{
	expected=$1
	shift
	run "$expected" vpmm-replay "$@"
}

# refuses NAME SENTENCE ARGUMENTS
refuses()
{
	name=$1 sentence=$2
	shift 2
	verdict "$name" "$(replay 2 "$@"; says err "vpmm-replay: $sentence"; silent out)"
}

# value KEY: of every object of the last replay
value()
{
	sed -n 's/.*[{ ]"'"$1"'": "\{0,1\}\([^",}]*\).*/\1/p' "$work/out" | tr '\n' ' ' | sed 's/ $//'
}

# is KEY VALUES
is()
{
	[ "$(value "$1")" = "$2" ] || echo "$1 is $(value "$1"), expected $2"
}

# more KEY THAN
more()
{
	[ "$(value "$1")" -gt "$2" ] || echo "$1 is $(value "$1"), expected more than $2"
}

equal()
{
	[ -n "$(value "$1")" ] || echo "no $1"
	[ "$(value "$1")" = "$(value "$2")" ] || echo "$1 is $(value "$1"), $2 is $(value "$2")"
}

# As the specification has it: in whole pages, with the driver for what is less.
in_pages()
{
	VPMM_EXTENT_MAX=${VPMM_PAGE_SIZE:-2M} VPMM_SMALL=driver "$@"
}

# close MOST_PERMILLE: no more is taken than so much of the most that was live
close()
{
	awk -v taken="$(value peak_taken)" -v live="$(value peak_live)" -v most="$1" 'BEGIN {
		if (!(live > 0 && taken * 1000 <= live * most))
			print "peak_taken is " taken ", more than " most " thousandths of peak_live, " live
	}'
}

damaged()
{
	printf "$2" >"$work/bad.trace"
	refuses "$1" "$work/bad.trace:$3" "$work/bad.trace"
}

printf '# two\n10 a 1 3000000 0\n20 a 2 100 1\n30 f 1 3000000 1\n2000050 f 2 100 0\n' >"$work/two.trace"
gzip -c "$work/two.trace" >"$work/two.trace.gz"

# Options
verdict "--help names every option" "$(replay 0 --help
	for option in backend allocator verify lag repeat limit overlap picture export output json version help; do says out "--$option"; done; silent err)"
verdict "--version" "$(replay 0 --version; says out "vpmm-replay "; silent err)"
for option in help version; do
	verdict "--$option into a full disk" "$(vpmm-replay --$option >/dev/full 2>"$work/err"
		[ $? -eq 2 ] || echo "expected exit status 2"
		says err "vpmm-replay: writing the $option failed: No space left on device")"
done
refuses "no trace" "no trace given"
refuses "unknown option" "Unknown option --fast" --fast "$work/two.trace"
refuses "unknown backend" '--backend: "gpu": expected cuda, host or auto' --backend=gpu "$work/two.trace"
refuses "unknown allocator" '--allocator: "x": expected vpmm, async or malloc' --allocator=x "$work/two.trace"
refuses "bad lag" '--lag: "5" is no time with a unit' --lag=5 "$work/two.trace"
refuses "bad limit" '--limit: "1MB" is no number of bytes' --limit=1MB "$work/two.trace"
refuses "enormous limit" '--limit: 99999999T is larger than 64 bits can hold' --limit=99999999T "$work/two.trace"
refuses "tiny limit" '--limit: 1M: expected 2097152 bytes or more' --backend=host --limit=1M "$work/two.trace"
refuses "no limit" '--limit: expected at least one byte' --limit=0 "$work/two.trace"
for passes in 0 -1 x 0x2 99999999999 ''; do
	refuses "$passes passes" '--repeat: expected a number from 1 to 2147483647' --repeat="$passes" "$work/two.trace"
done
verdict "numbers are decimal" "$(replay 0 --json --repeat=010 "$work/two.trace"
	[ "$(wc -l <"$work/out")" -eq 10 ] || cat "$work/out")"
refuses "a value in letters that the locale does not have" "--tags: \"$(printf '\303\244')\": expected" \
	--tags="$(printf '\303\244')" "$work/two.trace"
refuses "an export without a name" "--output: : No such file" --export=perfetto --output= "$work/two.trace"
refuses "absent trace" "$work/none.trace: No such file or directory" "$work/none.trace"
VPMM_PAGE_SIZE=2Q
export VPMM_PAGE_SIZE
refuses "bad variable" "vpmm_opts_from_env: VPMM_PAGE_SIZE=2Q" "$work/two.trace"
VPMM_PAGE_SIZE=1000
refuses "variable that the device cannot have" "vpmm_pool_create: page_size (VPMM_PAGE_SIZE) is 1000" "$work/two.trace"
unset VPMM_PAGE_SIZE

# Damaged traces
damaged "empty trace" '' "1: the trace ends before its first allocation"
for text in '' 'Thread,Time,Action\n1,10:00,free\n' '\177ELF\002\001\n' '# words\nand more\n'; do
	printf "$text" >"$work/bad.trace"
	refuses "no trace: $text" "$work/bad.trace:" "$work/bad.trace"
	verdict "no trace, as is said: $text" "$(says err "; this is no trace: see vpmm-trace(5)")"
done
verdict "a trace is one" "$(printf '1 a 1 8 0\n2 f 1 8\n' >"$work/bad.trace"; replay 2 "$work/bad.trace"
	grep "no trace" "$work/err")"
damaged "unknown op" '1 a 1 8 0\n2 x 1 8 0\n' '2: the op is "x"'
damaged "missing field" '1 a 1 8 0\n2 f 1 8\n' "2: the stream is missing"
damaged "extra field" '#\n1 a 1 8 0 0\n' '2: "0" after the last field'
damaged "number too large" '1 a 1 99999999999999999999 0\n' "1: the size is 99999999999999999999"
damaged "id allocated twice" '1 a 1 8 0\n2 a 1 8 0\n' "2: allocates 1, which line 1 did"
damaged "id not allocated" '1 f 1 8 0\n' "1: frees 1, which is not allocated"
pool='# vpmm-trace 2\n0 p 1 host 0 2097152\n'
damaged "a move onto another allocation" "${pool}1 a 1 8 0\n2 a 2 8 0\n3 m 1 2 9 0\n" "5: moves 1 to 2, which line 4 allocated"
damaged "an attribute of another record" "${pool}1 a 1 8 0 copied\n" '3: "copied" after the last field'
damaged "time going back" '2 a 1 8 0\n1 f 1 8 0\n' "2: the time goes back"
head -c 20000 "$traces/pipeline_streams.trace.gz" >"$work/cut.trace.gz"
verdict "compressed trace cut short" "$(replay 2 "$work/cut.trace.gz"
	says err "vpmm-replay: $work/cut.trace.gz:"; says err ": the compressed data end too early"; silent out)"
{ gzip -c "$work/two.trace"; cat "$work/two.trace"; } >"$work/tail.trace.gz"
verdict "garbage after a compressed trace" "$(replay 2 "$work/tail.trace.gz"
	says err "vpmm-replay: $work/tail.trace.gz:6: garbage follows the compressed data"; silent out)"
verdict "a damaged trace after a good one" "$(replay 2 --json "$work/two.trace" "$work/bad.trace" "$work/two.trace"
	is trace "$work/two.trace"; says err "vpmm-replay: $work/bad.trace:2:")"

# Tags
{
	printf '%b' "${pool}1 a 1 3000000 0 tag=x pausable\n2 a 2 5000000 7 tag=y pausable stay drop\n3 s tag=x\n"
	printf '%b' '4 w tag=x\n5 f 1 0\n6 a 3 100 0\n7 s tag=y drop\n'
} >"$work/tags.trace"
verdict "recorded tags are paused and resumed" "$(replay 0 --json "$work/tags.trace"; is operations 7; is errors 0)"
for rule in kept stream size; do
	verdict "tags by the rule $rule replace them, and their pauses" "$(
		replay 0 --json --tags=$rule "$work/tags.trace"; is operations 4; is errors 0)"
done
refuses "unknown rule" '--tags: "x": expected kept, stream or size' --tags=x "$work/tags.trace"

damaged "a pickle" '\200\004\225' "1: the file is a pickle of Python, of which python3 -m vpmm.convert makes a trace"

# What is reported
keys="trace version backend device device_name driver_version allocator settings verify pass operations errors streams peak_live peak_rounded peak_mapped peak_small peak_taken peak_requested requested
	wall_s trace_s driver_s op_us_p50 op_us_p99 op_us_max reserved mapped live free holes zombies small_live
	small_mapped mallocs frees reuses steals defrags grows waits creates maps accesses unmaps releases grown remapped
	given_back scrubbed chunks regions extents stuck spans mappings held driver_ns
	waits_sampled wait_ns"
verdict "every key once" "$(replay 0 --json "$work/two.trace"
	for key in $keys; do
		[ "$(grep -o "[{ ]\"$key\": " "$work/out" | wc -l)" -eq 1 ] || echo "not one $key"
	done)"
verdict "one object on a line" "$(replay 0 --json --repeat=2 "$work/two.trace" "$work/two.trace.gz"
	pair='"[A-Za-z0-9_]+": ("([^"\\]|\\.)*"|[0-9]+(\.[0-9]+)?|true|false)'
	object="\{$pair(, $pair)*\}"
	[ "$(sed -E ":a; s/$object/0/; ta" "$work/out" | grep -cx 0)" -eq 4 ] || cat "$work/out"; silent err)"
verdict "what is known of a small trace, in pages" "$(in_pages replay 0 --json --verify "$work/two.trace"
	is trace "$work/two.trace"; is backend host; is allocator vpmm; is pass 1; is operations 4; is errors 0
	is streams 2; is peak_live 3000100; is peak_rounded 4194304; is peak_mapped 4194304; is trace_s 2.000040
	is mallocs 2; is frees 2; is grows 1; more peak_small 99
	is peak_taken $(($(value peak_mapped) + $(value peak_small))))"
verdict "what is known of a small trace" "$(replay 0 --json --verify "$work/two.trace"
	is trace "$work/two.trace"; is backend host; is allocator vpmm; is pass 1; is operations 4; is errors 0
	is streams 2; is peak_live 3000100; is trace_s 2.000040; is mallocs 2; is frees 2; is peak_small 0
	is small_live 0; more peak_mapped 3000100; equal peak_taken peak_mapped)"
verdict "what a replay ran with" "$(export VPMM_OVERHEAD=7 VPMM_EXTENT_MAX=64M
	replay 0 --json --verify --lag=5ms --limit=1G "$work/two.trace"
	is version "$(vpmm-replay --version | sed 's/^vpmm-replay //')"
	is device 0; is device_name "libvpmm host device 0"; is driver_version 0; is verify true; is lag_us 5000; is limit 1073741824; is VPMM_OVERHEAD 7
	is VPMM_EXTENT_MAX 67108864; is VPMM_BACKEND host; is VPMM_SMALL pool; is VPMM_HOST_CAPACITY 1073741824)"
verdict "the settings are those that vpmm-info shows" "$(
	vpmm-info --json | grep -o '"VPMM_[A-Z_]*": {"value": [^,]*' | sed 's/{"value": //' >"$work/shown"
	[ -s "$work/shown" ] || echo "vpmm-info shows none"
	replay 0 --json "$work/two.trace"; grep -o '"VPMM_[A-Z_]*": [^,}]*' "$work/out" | diff "$work/shown" -)"
verdict "odd name of a trace" "$(cp "$work/two.trace" "$work/a \"b\\c.trace"; replay 0 --json "$work/a \"b\\c.trace"
	says out "\"trace\": \"$work/a \\\"b\\\\c.trace\"")"
verdict "standard input" "$(replay 0 --json - <"$work/two.trace"; is operations 4; is trace -)"
verdict "standard input, compressed" "$(replay 0 --json - <"$work/two.trace.gz"; is operations 4)"
verdict "passes" "$(in_pages replay 0 --json --verify --repeat=3 "$work/two.trace"
	is pass "1 2 3"; is errors "0 0 0"; is mallocs "2 2 2"; is frees "2 2 2"; is grows "1 0 0"; is reuses "0 1 1")"
# Old places are of use as long as there are addresses for new ones.
verdict "passes of extents" "$(export VPMM_VA_SIZE=1T
	replay 0 --json --verify --repeat=3 "$traces/stark_prover.trace.gz"
	is pass "1 2 3"; is errors "0 0 0"
	set -- $(value creates)
	[ $# -eq 3 ] && [ "$2" -eq 0 ] && [ "$3" -eq 0 ] || echo "creates is $*, expected none after the first pass"
	set -- $(value maps) $(value mallocs)
	[ $# -eq 6 ] && [ $(($2 * 100)) -lt "$5" ] && [ $(($3 * 100)) -lt "$6" ] ||
		echo "maps and mallocs are $*, expected less than one for a hundred after the first pass")"
verdict "what a trace leaves allocated is freed" "$(printf '1 a 1 4194304 0\n' >"$work/left.trace"
	replay 0 --json --verify --repeat=2 "$work/left.trace"; is mallocs "1 1"; is frees "0 0"
	is peak_live "4194304 4194304"; is peak_mapped "4194304 4194304")"
verdict "an allocation of nothing" "$(printf '1 a 1 0 0\n2 f 1 0 0\n' >"$work/zero.trace"
	for allocator in vpmm async malloc; do
		replay 0 --json --verify --allocator=$allocator "$work/zero.trace"
		is errors 0
	done)"
verdict "sizes that no block has" "$(most=18446744073709551615
	printf '# vpmm-trace 2\n0 p 1 host 0 %s\n1 a 1 8 0\n2 x %s 0\n3 t %s\n4 e 1\n' $most $most $most \
		>"$work/most.trace"
	replay 0 --json --verify "$work/most.trace"; is errors 0; is operations 2)"
verdict "page size" "$(VPMM_PAGE_SIZE=4M replay 0 --json "$work/two.trace"; is peak_rounded 0
	VPMM_PAGE_SIZE=18446744073709551615 replay 0 --json "$work/two.trace"; is peak_rounded 0; is peak_mapped 0
	is errors 0)"
verdict "table" "$(replay 0 --verify --repeat=2 "$work/two.trace" "$traces/pipeline_streams.trace.gz"; silent err
	says out "two #2"; says out "pipeline_streams #1"; says out "Backend:   host"
	says out "No errors: every allocation kept"
	awk 'length > 80 { print "too wide: " $0 }' "$work/out")"
verdict "auto says which backend it took" "$(replay 0 --backend=auto "$work/two.trace"; says out "(auto found ")"

# Interrupts
# stop SIGNAL LINES FILE ARGUMENTS: a replay gets the signal when so many lines are in out or err, and descriptor 3 is
# closed then; complains unless the signal has ended it
stop()
{
	signal=$1 lines=$2 file=$3
	shift 3
	mkfifo "$work/pipe"
	if [ "$file" = out ]; then
		# sh starts what runs beside it with SIGINT ignored.
		env --default-signal=INT vpmm-replay "$@" >"$work/pipe" 2>"$work/err" <&4 3>&- 4>&- &
	else
		env --default-signal=INT vpmm-replay "$@" >"$work/out" 2>"$work/pipe" <&4 3>&- 4>&- &
	fi
	replaying=$!
	{
		while [ "$lines" -gt 0 ] && read -r line; do
			echo "$line"
			lines=$((lines - 1))
		done
		kill -s "$signal" $replaying
		exec 3>&-
		cat
	} <"$work/pipe" >"$work/$file"
	wait $replaying
	status=$?
	[ "$(kill -l $status)" = "$signal" ] || echo "exit status $status after SIG$signal"
	rm "$work/pipe"
}
exec 4</dev/null

# interrupts NAME CHECK
interrupts()
{
	if env --default-signal=INT true 2>/dev/null; then
		verdict "$1" "$($2)"
	else
		count=$((count + 1))
		echo "ok $count - $1 # SKIP env has no --default-signal"
	fi
}

interrupted_json()
{
	for signal in INT TERM; do
		stop $signal 2 out --json --repeat=2147483647 "$work/two.trace"
		[ "$(value pass)" = "$(seq -s " " "$(wc -l <"$work/out")")" ] || echo "the passes are $(value pass)"
		[ "$(grep -c '^{.*}$' "$work/out")" -eq "$(wc -l <"$work/out")" ] || cat "$work/out"
		says err "vpmm-replay: $work/two.trace: interrupted in pass $(($(wc -l <"$work/out") + 1)) of 2147483647, after "
	done
}
interrupts "what is finished is there after a signal" interrupted_json

# Each pass tells of ten errors and that there are more.
interrupted_table()
{
	stop INT 12 err --limit=4M --repeat=2147483647 "$traces/pipeline_streams.trace.gz"
	says out "pipeline_streams #1"
	says out " errors; the first of them"
	says err "pipeline_streams.trace.gz: interrupted in pass "
}
interrupts "and in the table" interrupted_table

interrupted_reading()
{
	mkfifo "$work/input"
	exec 3<>"$work/input" 4<"$work/input"
	stop INT 1 out --json "$work/two.trace" -
	is trace "$work/two.trace"
	says err "vpmm-replay: standard input: interrupted while it was read"
}
interrupts "and while the next trace is read" interrupted_reading

# Each pass tells of its errors, so these tell how many passes there were.
verdict "no pass follows once a line is lost" "$(
	vpmm-replay --json --limit=4M --repeat=3 "$traces/pipeline_streams.trace.gz" >/dev/full 2>"$work/err"
	[ $? -eq 2 ] || echo "expected exit status 2"
	says err "vpmm-replay: writing the report failed: No space left on device"
	[ "$(grep -c "more errors are counted" "$work/err")" -eq 1 ] || cat "$work/err")"
verdict "errors hide no line that is lost" "$(
	vpmm-replay --limit=4M "$traces/pipeline_streams.trace.gz" >/dev/full 2>"$work/err"
	[ $? -eq 2 ] || echo "expected exit status 2"
	says err "vpmm-replay: writing the report failed: No space left on device")"

# Memory that runs out
verdict "limit" "$(replay 1 --json --verify --limit=4M "$traces/pipeline_streams.trace.gz"; more errors 0
	says err "pipeline_streams.trace.gz:2: allocation: vpmm_malloc"; says err "more errors are counted, not printed")"
verdict "limit that suffices" "$(replay 0 --json --verify --limit=1G "$traces/pipeline_streams.trace.gz"; is errors 0)"
verdict "limit of the other allocators" "$(for allocator in async malloc; do
		replay 1 --json --limit=4M --allocator=$allocator "$traces/pipeline_streams.trace.gz"; more errors 0
	done)"
verdict "errors in the table" "$(replay 1 --limit=4M "$traces/pipeline_streams.trace.gz"
	says out " errors; the first of them"; says out "has no ratio"
	awk '/^pipeline_streams / { if ($NF != "-") print "the ratio is " $NF; exit }' "$work/out")"

# Real programs: nothing is lost to fragmentation, to the byte
for name in pipeline_streams stark_prover long_context; do
	verdict "$name, in pages" "$(in_pages replay 0 --json --verify "$traces/$name.trace.gz"
		is errors 0; equal peak_mapped peak_rounded)"
	verdict "$name" "$(replay 0 --json --verify "$traces/$name.trace.gz"; is errors 0; is peak_small 0; close 1010)"
done
for name in pipeline_streams stark_prover long_context; do
	verdict "$name, in little address space" "$(
		VPMM_VA_SIZE=64G replay 0 --json "$traces/$name.trace.gz"; is errors 0; close 1010)"
done
for lag in 1ms 50ms; do
	verdict "pipeline_streams, work completed $lag late, in pages" "$(
		in_pages replay 0 --json --verify --lag=$lag "$traces/pipeline_streams.trace.gz"
		is errors 0; equal peak_mapped peak_rounded; more waits 0)"
done
# What is pending does not merge. Nothing is allowed over the peak, as streams wait for each other. The pool has 465 pages, so one of them is two of a thousand.
for lag in 5ms 50ms 200ms; do
	verdict "pipeline_streams, work completed $lag late" "$(
		VPMM_OVERLAP=0 replay 0 --json --verify --lag=$lag "$traces/pipeline_streams.trace.gz"
		is errors 0; more waits 0; close 1025)"
done
verdict "pipeline_streams, waiting on the host, in pages" "$(
	VPMM_REUSE=block in_pages replay 0 --json --verify --lag=1ms "$traces/pipeline_streams.trace.gz"
	is errors 0; equal peak_mapped peak_rounded)"
verdict "pipeline_streams, waiting on the host" "$(
	VPMM_OVERLAP=0 VPMM_REUSE=block replay 0 --json --verify --lag=1ms "$traces/pipeline_streams.trace.gz"
	is errors 0; close 1025)"
verdict "pipeline_streams, small requests by the driver" "$(
	VPMM_SMALL=driver replay 0 --json --verify --lag=5ms "$traces/pipeline_streams.trace.gz"
	is errors 0; more peak_small 0)"
for report in "" --json; do
	verdict "a full disk${report:+, $report}" "$(
		vpmm-replay $report "$traces/pipeline_streams.trace.gz" >/dev/full 2>"$work/err"
		[ $? -eq 2 ] || echo "expected exit status 2"
		says err "vpmm-replay: writing the report failed: No space left on device")"
done
verdict "lag without verification" "$(in_pages replay 0 --json --lag=1ms "$traces/pipeline_streams.trace.gz"
	is errors 0; equal peak_mapped peak_rounded; more waits 0)"
# A stream fills batches, which another computes with and frees: more memory lets the one go ahead. The small block, freed
# by the other, has it wait for the batch. The opposite is a stream alone.
awk 'BEGIN { for (i = 3; i <= 600; i += 3) {
	us = i * 300
	printf "%d a %d 8388608 1\n%d a %d 512 1\n%d f %d 512 2\n", us, i, us, i + 1, us, i + 1
	printf "%d a %d 8388608 2\n%d f %d 8388608 2\n%d f %d 8388608 2\n", us, i + 2, us, i + 2, us, i } }' >"$work/ahead.trace"
sed 's/[12]$/1/' "$work/ahead.trace" >"$work/alone.trace"
verdict "what more memory buys" "$(replay 0 --overlap --json "$work/ahead.trace"; silent err
	is VPMM_OVERLAP "0 25 50 100 auto"; is errors "0 0 0 0 0"
	sed -n 's/.*"VPMM_OVERLAP": "\(0\|100\)".*"peak_taken": \([0-9]*\),.*"clock_s": \([0-9.]*\),.*/\2 \3/p' "$work/out" |
		awk '{ taken[NR] = $1; time[NR] = $2 } END {
			if (NR != 2 || time[1] < 1.5 * time[2] || taken[1] >= taken[2] || time[2] > 0.19) print "it is", time[1], time[2] }'
	grep '"least": true' "$work/out" | grep -q '"VPMM_OVERLAP": "0"' && echo "the least is 0")"
verdict "what it buys a stream alone" "$(replay 0 --overlap "$work/alone.trace"; silent err
	says out "VPMM_OVERLAP=0 is the least"; awk '$1 == "100" && $7 != 0 { print "a stream waits for itself" }' "$work/out")"
refuses "what it buys with --lag" "--overlap: expected neither --verify nor --lag beside it" --overlap --lag=1ms "$work/two.trace"
refuses "what it buys the driver" "--overlap: expected --allocator=vpmm" --overlap --allocator=async "$work/two.trace"
refuses "what it buys in a picture" "--overlap: expected neither --picture nor --export beside it" --overlap \
	--picture="$work/x.svg" "$work/two.trace"
sed 's/^[0-9]*/1/' "$work/ahead.trace" >"$work/timeless.trace"
refuses "what it buys without time" "$work/timeless.trace: all of it happens at one time" --overlap "$work/timeless.trace"

verdict "allocator async" "$(replay 0 --json --verify --lag=1ms --allocator=async "$traces/pipeline_streams.trace.gz"
	is allocator async; is errors 0; is peak_mapped 0; equal peak_small peak_taken
	[ "$(value peak_small)" -ge "$(value peak_live)" ] || echo "peak_small is below peak_live")"
verdict "allocator malloc" "$(replay 0 --json --verify --lag=1ms --allocator=malloc "$traces/pipeline_streams.trace.gz"
	is allocator malloc; is errors 0; is peak_small 0; is driver_s 0.000000; is waits 0; equal peak_mapped peak_taken
	[ "$(value peak_taken)" -ge "$(value peak_rounded)" ] || echo "peak_taken is below peak_rounded")"

# The cuda backend, on a driver of the test suite's own
fake=${FAKE_CUDA_DIR:-}/fake/.libs
on_fake()
{
	name=$1
	shift
	if [ -e "$fake/libcuda.so.1" ]; then
		verdict "$name" "$(LD_LIBRARY_PATH=$fake${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; export LD_LIBRARY_PATH
			unset VPMM_BACKEND; "$@")"
	else
		count=$((count + 1))
		echo "ok $count - $name # SKIP no $fake/libcuda.so.1"
	fi
}

fake_replay()
{
	for allocator in vpmm async malloc; do
		replay 0 --json --allocator=$allocator "$traces/pipeline_streams.trace.gz"
		is backend cuda; is allocator $allocator; is errors 0
	done
}
on_fake "auto takes a device" fake_replay

fake_peak()
{
	in_pages replay 0 --json --backend=cuda --repeat=2 "$traces/pipeline_streams.trace.gz"
	equal peak_mapped peak_rounded
}
on_fake "cuda, nothing lost" fake_peak

fake_lag()
{
	replay 2 --lag=1ms "$work/two.trace"
	says err "vpmm-replay: --lag: only streams of the host backend can be held back"
}
on_fake "cuda has no lag" fake_lag

fake_limit()
{
	replay 1 --json --limit=64M "$traces/pipeline_streams.trace.gz"
	more errors 0
	replay 2 --limit=8T "$work/two.trace"
	says err "vpmm-replay: --limit asks for 8796093022208 bytes, and the device has "
}
on_fake "cuda, limit" fake_limit

if vpmm-info --backend=cuda >/dev/null 2>&1; then
	count=$((count + 1))
	echo "ok $count - cuda without a device # SKIP there is one"
else
	refuses "cuda without a device" "vpmm_pool_create: " --backend=cuda "$work/two.trace"
fi
echo "1..$count"

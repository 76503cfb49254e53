#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# run.sh ENGINE SOURCES: builds the fuzz targets for libfuzzer or afl in ./fuzz, of the library, of what tests share and
# of the tools that they need, and runs each for FUZZ_TIME seconds in FUZZ_JOBS processes; or, for coverage, says what
# lines of the library the bytes at hand reach.
#
# make calls it, and says where everything is. The library is compiled once more for each engine, as sanitizers and the
# counting of coverage go into every file. What has been found of interest stays in ./fuzz for the next run, and each
# engine starts from what the other found.
set -eu

engine=$1
shift
top_srcdir=$(cd "$top_srcdir" && pwd)
tests=$top_srcdir/tests
# The numbers of the policy are variables, so that fuzz-pool can have blocks remapped that are small.
FUZZ_CFLAGS="${FUZZ_CFLAGS-} -DPOLICY_TUNABLE"
sanitize="-g -O1 -DVPMM_DEBUG -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all"

use_engine()
{
	engine=$1
	main=
	case $engine in
	libfuzzer)
		cc=$FUZZ_CC
		cflags="$sanitize -fsanitize=fuzzer-no-link"
		ldflags="$sanitize -fsanitize=fuzzer"
		;;
	afl)
		cc=$FUZZ_AFL_CC
		cflags=$sanitize
		ldflags=$sanitize
		main=replay
		;;
	coverage)
		cc=$FUZZ_CC
		cflags="-g -O0 -fprofile-instr-generate -fcoverage-mapping"
		ldflags=$cflags
		main=replay
		;;
	esac
	out=fuzz/$engine
	mkdir -p "$out/lib" "$out/tests" "$out/tools"
}

# compile OBJECT SOURCE, link PROGRAM OBJECTS
compile()
{
	# shellcheck disable=SC2086 # flags are words
	$cc $cflags $FUZZ_CFLAGS -c -o "$1" "$2"
}

link()
{
	# shellcheck disable=SC2086
	$cc $ldflags -o "$@" $FUZZ_LIBS
}

to_compile()
{
	printf '%s\0%s\0' "$out/$1.o" "$2"
}

# As many at a time as there are processors.
compile_all()
{
	export cc cflags FUZZ_CFLAGS
	# shellcheck disable=SC2016 # for the shell below
	xargs -0 -P "$(nproc)" -n 2 sh -c '$cc $cflags $FUZZ_CFLAGS -c -o "$1" "$2"' - <"$1"
}

can_build()
{
	{
		printf '#include <stdint.h>\n#include <stddef.h>\n#include "tests/fuzz/fuzz.h"\n'
		printf 'int LLVMFuzzerTestOneInput(const uint8_t *d, size_t n)\n{\n\treturn d && n > 9;\n}\n'
		[ -z "$main" ] || printf 'int main(void)\n{\n\treturn LLVMFuzzerTestOneInput(0, 0);\n}\n'
	} >"$out/try.c"
	{ compile "$out/try.o" "$out/try.c" && link "$out/try" "$out/try.o"; } >"$out/try.log" 2>&1
}

# Compiles everything, unless nothing has changed since that was last done.
build()
{
	made="$cc $cflags $FUZZ_CFLAGS $FUZZ_LIBS $*"
	if [ -f "$out/made" ] && [ "$(cat "$out/made")" = "$made" ] &&
		[ -z "$(find "$top_srcdir/include" "$top_srcdir/lib" "$tests" "$top_srcdir/tools" -name '*.[ch]' \
			-newer "$out/made" -print -quit)" ]; then
		return
	fi
	echo "building in $out/"
	rm -f "$out/made" "$out"/*.o "$out"/*/*.o
	for source; do
		case $source in
		tests/fuzz/*) ;;
		*.c) to_compile "${source%%/*}/$(echo "${source%.c}" | tr / -)" "$top_srcdir/$source" ;;
		esac
	done >"$out/list"
	for source in "$tests"/fuzz/*.c; do
		name=$(basename "$source" .c)
		[ "$name" = replay ] || to_compile "$name" "$source"
	done >>"$out/list"
	[ -z "$main" ] || to_compile "$main" "$tests/fuzz/$main.c" >>"$out/list"
	compile_all "$out/list"
	common=$out/start.o
	[ -z "$main" ] || common="$common $out/$main.o"
	for name in plan pool settings tag trace; do
		objects=$(echo "$out"/lib/*.o "$out"/tests/*.o)
		case $name in
		pool) objects="$objects $(echo "$out"/pool-*.o)" ;;
		trace) objects=$(echo "$out"/tools/*.o) ;;
		esac
		# shellcheck disable=SC2086
		link "$out/fuzz-$name" "$out/fuzz-$name.o" $common $objects
	done
	printf '%s\n' "$made" >"$out/made"
}

complain()
{
	echo "make $*" >&2
	failed=1
}

fuzz_by_libfuzzer()
{
	log=$out/$1.log
	jobs=
	[ "$FUZZ_JOBS" -le 1 ] || jobs="-jobs=$FUZZ_JOBS -workers=$FUZZ_JOBS"
	# What AFL++ has found is read, and no more.
	set -- "$1" "$PWD/fuzz/corpus-$1" "$tests/fuzz/corpus-$1" "$PWD"/fuzz/afl/"$1"/*/queue
	[ -d "$4" ] || set -- "$1" "$2" "$3"
	name=$1
	shift
	# On the host backend, what a program allocates and fills is resident: inputs that take 2 GB are no leaks.
	# shellcheck disable=SC2086
	if (cd "$out" && "./fuzz-$name" $jobs -max_total_time="$FUZZ_TIME" -max_len=2048 -print_final_stats=1 \
		-rss_limit_mb=8192 -artifact_prefix="$name-" "$@") >"$log" 2>&1; then
		grep -hE '^(#[0-9]+.*DONE|stat::number_of_executed_units)' "$log"
	else
		tail -n 60 "$log"
		complain "fuzz: the $name fails, see $log"
	fi
}

# One process leads, the others follow; each has a directory of its own.
fuzz_by_afl()
{
	name=$1
	log=$out/$name.log
	seeds=$out/seeds-$name
	rm -rf "$seeds" "${out:?}/$name"
	mkdir -p "$seeds" "$out/$name"
	for dir in "$tests/fuzz/corpus-$name" "fuzz/corpus-$name"; do
		find "$dir" -type f -exec cp -t "$seeds" {} +
	done
	role=-M
	pids=
	job=1
	while [ "$job" -le "$FUZZ_JOBS" ]; do
		env -u ASAN_OPTIONS -u UBSAN_OPTIONS AFL_NO_UI=1 AFL_SKIP_CPUFREQ=1 AFL_NO_AFFINITY=1 \
			AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES=1 AFL_FAST_CAL=1 \
			afl-fuzz -i "$seeds" -o "$out/$name" $role "job$job" -V "$FUZZ_TIME" -t 20000 -m none \
			-- "$out/fuzz-$name" >"$log.$job" 2>&1 &
		pids="$pids $!"
		role=-S
		job=$((job + 1))
	done
	for pid in $pids; do
		wait "$pid" || complain "fuzz-afl: afl-fuzz itself fails on the $name, see $log.*"
	done
	sed -n 's/^\(execs_done\|corpus_count\|bitmap_cvg\) *: /\1 /p' "$out/$name"/*/fuzzer_stats
	found=$(find "$out/$name" \( -path '*/crashes/id*' -o -path '*/hangs/id*' \) -print)
	[ -z "$found" ] || complain "fuzz-afl: the $name fails on
$found"
}

# Lines of each file that are reached by what is kept, and by what either fuzzer has left. Backends are not the pool's.
# What records and reports, makes and ends pools, or lets other devices at them, is not the policy either; nor is what
# goes through sockets, through files of a budget or a plan, or by the time of a device, which no input has:
# test-export-socket, test-control, test-budget and test-overlap-auto are for these. Touches of shared ranges come from threads, and
# hold signals back: test-shared-hammer and test-shared-sweep are for them. A pool on the fault backend is not in the
# index of addresses.
report_coverage()
{
	rm -f "$out"/*.profraw
	programs=
	for name in $FUZZ_TARGETS; do
		find "$tests/fuzz/corpus-$name" "fuzz/corpus-$name" fuzz/afl/"$name"/*/queue -maxdepth 1 -type f \
			2>/dev/null >"$out/$name.files" || :
		LLVM_PROFILE_FILE="$out/$name.profraw" xargs -d '\n' -n 1000000 "$out/fuzz-$name" <"$out/$name.files" \
			>"$out/$name.log" 2>&1 || { tail -n 20 "$out/$name.log"; complain "fuzz-coverage: the $name fails"; }
		programs="$programs -object $out/fuzz-$name"
		echo "$name: $(wc -l <"$out/$name.files") files"
	done
	$LLVM_PROFDATA merge -o "$out/all.profdata" "$out"/*.profraw
	# shellcheck disable=SC2086
	$LLVM_COV report -instr-profile "$out/all.profdata" ${programs# -object } \
		-ignore-filename-regex='/(tests|tools)/|/lib/(backend|host|cuda)/|\.h$' |
		awk 'function row(lines, missed, what) {
				printf "%7d %7d %7.2f%%  %s\n", lines, missed, 100 * (lines - missed) / lines, what
		     }
		     BEGIN { printf "%7s %7s %8s  %s\n", "lines", "missed", "reached", "file" }
		     !/\.c / { next }
		     { row($(NF - 5), $(NF - 4), $1); all += $(NF - 5); all_missed += $(NF - 4) }
		     $1 !~ /^(.*\/)?(address-index|api\/(block|budget|control|oom-dump|pool|report|stream|top)|cache-check|calls\/(budget|plan-file|pool|requests)|check|descriptor|dump|env|error|held|layout|lock|log|message|name|note|number|peer|room|settings\/(fit|options|parse|variables)|sized|stats|surplus|windows)\.c$/ &&
		     $1 !~ /(^|\/)(budget|shared|trace)\/|(^|\/)shared\.c$/ {
				policy += $(NF - 5); policy_missed += $(NF - 4)
		     }
		     END { row(policy, policy_missed, "the pool'"'"'s policy"); row(all, all_missed, "all of these") }'
}

refuse()
{
	echo "make fuzz: $*" >&2
	exit 1
}

# want_number NAME VALUE WHAT: a fuzzer takes what is none for no bound
want_number()
{
	case $2 in
	'' | 0* | *[!0-9]*) refuse "$1=$2: expected a number of $3" ;;
	esac
}

want_number FUZZ_TIME "$FUZZ_TIME" seconds
want_number FUZZ_JOBS "$FUZZ_JOBS" processes
for name in $FUZZ_TARGETS; do
	[ -f "$tests/fuzz/fuzz-$name.c" ] || refuse "FUZZ_TARGETS=$FUZZ_TARGETS: expected words of plan, pool, settings, tag and trace"
done
use_engine "$engine"
if ! can_build && [ "$engine" = afl ]; then
	echo "make fuzz-afl: $FUZZ_AFL_CC does not build here (on Debian it is in afl++); libFuzzer goes on alone" >&2
	use_engine libfuzzer
	can_build || :
fi
if [ ! -x "$out/try" ]; then
	cat "$out/try.log" >&2
	echo "make fuzz: $FUZZ_CC does not build for $engine; it needs clang (on Debian: clang and libclang-rt-dev)" >&2
	exit 1
fi
build "$@"

UBSAN_OPTIONS=${UBSAN_OPTIONS-print_stacktrace=1}
export UBSAN_OPTIONS
failed=0
for name in $FUZZ_TARGETS; do
	mkdir -p "fuzz/corpus-$name"
	[ "$engine" != coverage ] || continue
	echo "fuzzing the $name for $FUZZ_TIME seconds in $FUZZ_JOBS processes, by $engine"
	fuzz_by_"$engine" "$name"
done
[ "$engine" != coverage ] || report_coverage
exit $failed

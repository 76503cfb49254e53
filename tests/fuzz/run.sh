#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# run.sh SOURCES OF THE LIBRARY: builds the fuzz targets for libFuzzer in ./fuzz, and runs each for FUZZ_SECONDS.
#
# make fuzz calls it, and says where everything is. The library is compiled once more for it, as sanitizers and the
# counting of coverage go into every file. What has been found of interest stays in fuzz/corpus-* for the next run.
set -eu

tests=$top_srcdir/tests
common="-g -O1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all"

# compile OBJECT SOURCE, link PROGRAM OBJECTS
compile()
{
	# shellcheck disable=SC2086 # flags are words
	$FUZZ_CC $common -fsanitize=fuzzer-no-link $FUZZ_CFLAGS -c -o "$1" "$2"
}

link()
{
	# shellcheck disable=SC2086
	$FUZZ_CC $common -fsanitize=fuzzer -o "$@" $FUZZ_LIBS
}

mkdir -p fuzz/lib
printf 'int LLVMFuzzerTestOneInput(void);\nint LLVMFuzzerTestOneInput(void)\n{\n\treturn 0;\n}\n' >fuzz/try.c
if ! { compile fuzz/try.o fuzz/try.c && link fuzz/try fuzz/try.o; } >fuzz/try.log 2>&1; then
	cat fuzz/try.log >&2
	echo "make fuzz: $FUZZ_CC does not build for libFuzzer; it needs clang (on Debian: clang and libclang-rt-dev)" >&2
	exit 1
fi

echo "building in fuzz/"
for source; do
	case $source in
	*.c) compile "fuzz/lib/$(basename "$source" .c).o" "$top_srcdir/$source" ;;
	esac
done
for name in fixture model; do
	compile fuzz/$name.o "$tests/$name.c"
done
for name in trace fail; do
	compile fuzz/$name.o "$top_srcdir/tools/$name.c"
done
for name in start fuzz-pool fuzz-settings fuzz-trace; do
	compile fuzz/$name.o "$tests/fuzz/$name.c"
done
link fuzz/fuzz-pool fuzz/fuzz-pool.o fuzz/start.o fuzz/model.o fuzz/fixture.o fuzz/lib/*.o
link fuzz/fuzz-settings fuzz/fuzz-settings.o fuzz/start.o fuzz/fixture.o fuzz/lib/*.o
link fuzz/fuzz-trace fuzz/fuzz-trace.o fuzz/start.o fuzz/trace.o fuzz/fail.o

UBSAN_OPTIONS=${UBSAN_OPTIONS-print_stacktrace=1}
export UBSAN_OPTIONS
failed=0
for name in $FUZZ_TARGETS; do
	echo "fuzzing the $name for $FUZZ_SECONDS seconds"
	mkdir -p "fuzz/corpus-$name"
	if "fuzz/fuzz-$name" -max_total_time="$FUZZ_SECONDS" -max_len=2048 -print_final_stats=1 \
		-artifact_prefix="fuzz/$name-" "fuzz/corpus-$name" "$tests/fuzz/corpus-$name" >"fuzz/$name.log" 2>&1; then
		grep -E '^(#[0-9]+.*DONE|stat::number_of_executed_units)' "fuzz/$name.log"
	else
		tail -n 60 "fuzz/$name.log"
		echo "make fuzz: the $name fails, see fuzz/$name.log"
		failed=1
	fi
done
exit $failed

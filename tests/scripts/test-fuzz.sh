#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# The fuzz targets, on the bytes that are kept for them, as they are and changed a little; and a short run of the soak.
set -u

. "$top_srcdir/tests/support/tap.sh"

# VPMM_TEST_STEPS is for who wants tests to be short.
times=10
[ -z "${VPMM_TEST_STEPS-}" ] || times=1

for target in plan pool settings tag trace; do
	for file in "$top_srcdir"/tests/fuzz/corpus-$target/*; do
		verdict "$target $(basename "$file")" "$(run 0 "$top_builddir/tests/fuzz/fuzz-$target" "$file")"
	done
	verdict "$target changed" \
		"$(run 0 "$top_builddir/tests/fuzz/fuzz-$target" -$times "$top_srcdir"/tests/fuzz/corpus-$target/*)"
done
# refuses NAME SENTENCE: what run.sh says before it builds anything
refuses()
{
	verdict "$1" "$(run 1 sh "$top_srcdir/tests/fuzz/run.sh" libfuzzer; says err "make fuzz: $2"; silent out)"
}

export top_srcdir FUZZ_TIME=abc FUZZ_JOBS=1 FUZZ_TARGETS=pool
refuses "time that is none" "FUZZ_TIME=abc: expected a number of seconds"
FUZZ_TIME=1 FUZZ_JOBS=0
refuses "no process" "FUZZ_JOBS=0: expected a number of processes"
FUZZ_JOBS=1 FUZZ_TARGETS="pool bogus"
refuses "target that there is not" "FUZZ_TARGETS=pool bogus: expected words of plan, pool, settings, tag and trace"
verdict "soak" "$(run 0 "$top_builddir/tests/model/soak-shared-streams" 100000)"
echo "1..$count"

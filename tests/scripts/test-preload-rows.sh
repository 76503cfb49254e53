#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# The rows of tests/preload/rows.c over the suite's own driver: without and with the preload object they say the same,
# but for those that vpmm-preload(7) excepts. tests/gpu/test-preload-programs.sh compares; on a GPU it runs more.
set -u

object=lib/.libs/libvpmm-preload.so
if [ ! -e "$object" ]; then
	echo "1..0 # SKIP built without a shared object"
	exit 0
elif ! command -v bash >/dev/null; then
	echo "1..0 # SKIP there is no bash"
	exit 0
fi

. "$top_srcdir/tests/support/tap.sh"

# The object comes before the runtime of AddressSanitizer, and a program that is reset leaves things behind.
ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0:${ASAN_OPTIONS-}
LD_LIBRARY_PATH=$FAKE_CUDA_DIR/fake/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export ASAN_OPTIONS LD_LIBRARY_PATH

# rows NAME: their lines, under the object, in a file
rows()
{
	LD_PRELOAD=$object tests/preload/rows >"$work/$1" 2>"$work/$1-err" || echo "rows: exit status $?"
}

# The words of the manual, without its markup.
sed -n '/^\.\\"/d; s/^\.[A-Z][a-z] //; s/ \([,;.]\)$/\1/; p' "$top_srcdir/man/vpmm-preload.7" | tr '\n' ' ' >"$work/manual"
tests/preload/rows --differ | cut -f 2 | sort -u | while IFS= read -r sentence; do
	says manual "$sentence"
done >"$work/unsaid"
verdict "each exception is one of the manual" "$(cat "$work/unsaid")"

# What a setting changes is seen, so the comparison below can fail.
verdict "rows run under the object" "$(rows default)"
verdict "a free that does not wait is seen" "$(VPMM_PRELOAD_FREE=ordered; export VPMM_PRELOAD_FREE; rows ordered
	says default 'wait-free: free=0 waited=yes'
	says ordered 'wait-free: free=0 waited=no')"
verdict "a range that is another is seen" "$(VPMM_PRELOAD_RANGE=block; export VPMM_PRELOAD_RANGE; rows range
	says default 'async-range: range=0 base=yes size=no'
	says range 'async-range: range=0 base=yes size=yes')"

# What the script for a GPU says of programs that are known.
cat >"$work/extra" <<'END'
grow tests/preload/run-program plain=4x4 move=5x2 use=2x4 async=2x8 odd say=done free
vary tests/preload/run-program plain=4x4 parent
bad tests/preload/run-program plain=4x4 exit=3
differ tests/preload/run-program plain=4x4 env=LD_PRELOAD
none tests/preload/run-program say=hello
left tests/preload/run-program plain=4x4 exit=4
END
programs()
{
	ROWS=tests/preload/rows PRELOAD=$object EXTRA=$work/extra PROGRAMS=$1 \
		bash "$top_srcdir/tests/gpu/test-preload-programs.sh" >"$work/programs" 2>&1
}

# line PATTERN
line()
{
	grep -qE "^$1" "$work/programs" || {
		echo "expected: $1"
		cat "$work/programs"
	}
}

compared()
{
	! RUNS=3 programs 'grow vary ba[d] differ none' || echo "it says that all is well"
	line 'ok [0-9]+ - grow: equal yes; served 13,'
	line '# grow +13 .* 1\.000 .* yes$'
	line 'ok [0-9]+ - vary: equal varies;'
	line 'not ok [0-9]+ - bad: without it status 3, with it status 3'
	line 'not ok [0-9]+ - differ: output differs'
	line '# differ .* no \(FAILED\)'
	line 'not ok [0-9]+ - none: nothing was served'
	line '1\.\.5$'
}

recorded()
{
	! MONITOR=1 programs 'grow none bad' || echo "it says that all is well"
	line '# grow +13 +122 +13 +7 +72\.0 +2$'
	line '# bad +4 +16 +0 +0 +0\.0 +0$'
	line 'not ok [0-9]+ - bad: status 3'
	line 'not ok [0-9]+ - none: nothing was recorded'
	line '1\.\.3$'
}

# The script starts its programs by a shell, which cannot load the object where clang's ThreadSanitizer is in it.
if LD_PRELOAD=$object bash -c : 2>/dev/null; then
	verdict "the script for a GPU compares" "$(compared)"
	verdict "the script for a GPU counts resizes" "$(recorded)"
else
	skip "the script for a GPU compares" "a shell cannot load the object"
	skip "the script for a GPU counts resizes" "a shell cannot load the object"
fi

ROWS=tests/preload/rows PRELOAD=$object PROGRAMS='rows-*' bash "$top_srcdir/tests/gpu/test-preload-programs.sh" >"$work/rows"
sed -n -e 's/^\(ok\|not ok\) [0-9]* -/\1 -/' -e '/^1\.\./!p' "$work/rows" | awk -v count=$count '
	/^(not )?ok - / { sub(/ok -/, "ok " ++count " -") }
	{ print }
	END { print "1.." count }'

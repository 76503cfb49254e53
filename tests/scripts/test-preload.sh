#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Programs that have nothing to do with a GPU run under the preload object as they do without it.
set -u

# Relative to where tests run: a space in LD_PRELOAD ends a name.
object=lib/.libs/libvpmm-preload.so
if [ ! -e "$object" ]; then
	echo "1..0 # SKIP built without a shared object"
	exit 0
fi

. "$top_srcdir/tests/support/tap.sh"

# The runtime of AddressSanitizer has to come first, and would find leaks in other people's programs; that of
# ThreadSanitizer cannot be loaded into them.
preload=$object
case ${SANITIZE_CFLAGS-} in
*thread*)
	echo "1..0 # SKIP ThreadSanitizer cannot be preloaded into programs that were built without it"
	exit 0
	;;
*address*)
	preload="$($CC -print-file-name=libasan.so) $object"
	ASAN_OPTIONS=detect_leaks=0
	export ASAN_OPTIONS
	;;
esac

# under COMMAND...: with the object preloaded
under()
{
	LD_PRELOAD=$preload "$@"
}

# same COMMAND...: complains unless output and status are those without the object
same()
{
	"$@" >"$work/without" 2>"$work/without-err" </dev/null
	without=$?
	under "$@" >"$work/with" 2>"$work/with-err" </dev/null
	with=$?
	[ $with -eq $without ] || echo "$*: exit status $with, and $without without it"
	diff "$work/without" "$work/with"
	diff "$work/without-err" "$work/with-err"
}

# initializers OBJECT: how many bytes of them it has; the compiler's own are in every object
initializers()
{
	readelf -W -S "$1" | sed 's/^ *\[ *[0-9]*\] *//' | awk '$1 ~ /^\.(preinit_array|init_array|ctors)$/ { print $1, $5 }'
}

echo 'int main(void) { return 0; }' >"$work/empty.c"

verdict "ls" "$(same ls -l "$top_srcdir")"
verdict "a shell, and what it starts" "$(same sh -c 'ls / | wc -l; exit 3')"
verdict "a compiler" "$(same sh -c "$CC -c -o '$work/empty.o' '$work/empty.c' && echo compiled")"
verdict "a program with a double of the driver" "$(same "$top_builddir/tests/preload/no-driver")"
verdict "a program that opens objects" "$(same iconv -f latin1 -t utf-8 "$work/empty.c")"

# What it takes along: nothing of ours, of GLib or of CUDA.
verdict "it brings no other object" "$(under cat /proc/self/maps |
	grep -oE '[^/]*(libvpmm\.so|libglib|libcuda)[^/]*$' | sort -u)"
verdict "it is there" "$(under cat /proc/self/maps >"$work/maps"; says maps libvpmm-preload)"
if [ -n "${SANITIZE_CFLAGS-}" ] || $NM "$object" | grep -q __gcov_; then
	count=$((count + 1))
	echo "ok $count - it runs no code at load # SKIP a sanitizer or coverage does"
else
	# With an atomic operation: on AArch64, gcc finds out at load which ones the processor has.
	echo 'int nothing; int count(void) { return __atomic_fetch_add(&nothing, 1, __ATOMIC_SEQ_CST); }' >"$work/nothing.c"
	$CC -shared -fPIC -o "$work/nothing.so" "$work/nothing.c"
	initializers "$work/nothing.so" >"$work/wanted"
	initializers "$object" >"$work/found"
	verdict "it runs no code at load" "$(diff "$work/wanted" "$work/found")"
fi

# A bad setting is reported where it matters, and not in every program of a shell.
verdict "a bad setting concerns nobody else" "$(VPMM_PRELOAD_FREE=never; export VPMM_PRELOAD_FREE; same ls /)"

# The report is JSON whatever the name of the object in front is: \303\251 is a letter, and of the others none is.
name=$(printf 'a\377\303\251\300\257\355\240\200\303"').so
if cp tests/preload/.libs/quota.so "$work/$name" 2>/dev/null; then
	ln -s "$PWD" "$work/built"
	(cd "$work" && LD_PRELOAD="${preload%"$object"}./$name built/$object" VPMM_PRELOAD_REPORT=$work/report \
		built/tests/preload/run-program plain=1x1) >"$work/out" 2>&1 || cat "$work/out"
	printf 'a?\303\251??????\\".so"}\n' >"$work/wanted"
	verdict "a name that is no UTF-8 in the report" "$(
		iconv -f utf-8 -t utf-8 "$work/report" >"$work/out" 2>&1 || cat "$work/out"
		sed 's,.*/,,' "$work/report" | cmp - "$work/wanted" || cat "$work/report")"
else
	skip "a name that is no UTF-8 in the report" "the file system has none"
fi

# reported FILE: the status of a program with a report in FILE, and what it says; it goes on without one
reported()
{
	LD_PRELOAD=$preload VPMM_PRELOAD_REPORT=$1 tests/preload/run-program plain=1x1 2>&1
	echo "exit status $?"
}
verdict "a report on a full disk" "$(reported /dev/full >"$work/out"
	says out "VPMM_PRELOAD_REPORT=/dev/full: No space left on device"; says out "exit status 0")"
# The memory of the host backend is a file, too.
verdict "a report beyond the limit of a file's size" "$(
	truncate -s 2G "$work/large"
	(ulimit -f 1048576; reported "$work/large") | cat >"$work/out"
	says out "VPMM_PRELOAD_REPORT=$work/large: File too large"; says out "exit status 0")"
echo "1..$count"

#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# The shared object as it is loaded: that does nothing, and so does closing it.
set -u

object=$top_builddir/lib/.libs/libvpmm.so
if grep -q "^dlname=''" "$top_builddir/lib/libvpmm.la"; then
	echo "1..0 # SKIP built without a shared object"
	exit 0
fi
if [ -n "${SANITIZE_CFLAGS-}" ]; then
	echo "1..0 # SKIP what a sanitizer does at load is not the library's"
	exit 0
fi

. "$top_srcdir/tests/support/tap.sh"

# initializers OBJECT: how many bytes of them it has; the compiler's own are in every object
initializers()
{
	readelf -W -S "$1" | sed 's/^ *\[ *[0-9]*\] *//' | awk '$1 ~ /^\.(preinit_array|init_array|ctors)$/ { print $1, $5 }'
}

echo "1..5"

# With an atomic operation: on AArch64, gcc finds out at load which ones the processor has.
echo 'int nothing; int count(void) { return __atomic_fetch_add(&nothing, 1, __ATOMIC_SEQ_CST); }' >"$work/nothing.c"
if ! command -v readelf >/dev/null || ! $CC -shared -fPIC -o "$work/nothing.so" "$work/nothing.c" 2>/dev/null; then
	echo "ok 1 - no code runs at load # SKIP there is no readelf, or no compiler that works"
	count=1
elif $NM "$object" | grep -q __gcov_; then
	echo "ok 1 - no code runs at load # SKIP coverage is counted"
	count=1
else
	verdict "no code runs at load" "$(initializers "$object" >"$work/object"; initializers "$work/nothing.so" |
		diff - "$work/object")"
fi

# With as many files open as any other program has that is started in the same way, but for what listing them takes.
idle()
{
	run 0 ls /proc/self/fd
	files=$(($(wc -l <"$work/out") - 1))
	# libtool takes no program by a name that has a space.
	cd "$top_builddir" && run 0 ./libtool --quiet --mode=execute tests/support/load-unused $files
	silent out
	silent err
}

# What the allocator keeps for a thread in case it is wanted again would look like a leak that ends somewhere.
reload()
{
	GLIBC_TUNABLES=glibc.malloc.tcache_count=0
	export GLIBC_TUNABLES
	run 0 "$top_builddir/tests/support/load-unload" "$object"
	silent out
	silent err
}

verdict "a program that does not use it has nothing of it" "$(idle)"
verdict "whatever the environment says" "$(
	for name in BACKEND PAGE_SIZE VA_SIZE PAGES REUSE LOG EXTENT_MAX SMALL FRAG_RATIO OVERHEAD OVERLAP LIMIT KEEP \
			SCRUB EXPORT RDMA TRACE HOST_CAPACITY HOST_DEVICES HOST_MAPPINGS; do
		export "VPMM_$name=?"
	done
	idle)"
verdict "it can be closed and opened again" "$(reload)"
verdict "and never goes away" "$(readelf -W -d "$object" | grep NODELETE >/dev/null ||
	echo "$object is not marked NODELETE")"

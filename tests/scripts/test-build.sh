#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# The build itself: what configure refuses, where a tree may lie, and how the test suite reports.
set -u

. "$top_srcdir/tests/support/tap.sh"

# A nested make is not to take part in the one that runs the tests.
unset MAKEFLAGS MFLAGS MAKELEVEL

# Automake names a log after its test, without the suffix .sh.
verdict "no two tests share a log" "$(printf '%s\n' $all_tests | sed 's/\.sh$//' | sort | uniq -d)"

# in_spaces SCRIPT: runs another test of the suite with its three directories below one whose name has spaces
in_spaces()
{
	(
		top_srcdir="$work/a b c/source"
		top_builddir="$work/a b c/build"
		TMPDIR="$work/a b c"
		export top_srcdir top_builddir TMPDIR
		run 0 sh "$top_srcdir/tests/scripts/$1"
		grep '^not ok' "$work/out"
	)
}

mkdir "$work/a b c"
ln -s "$top_srcdir" "$work/a b c/source"
ln -s "$top_builddir" "$work/a b c/build"
for script in example headers load man symbols; do
	verdict "test-$script.sh in a path with spaces" "$(in_spaces test-$script.sh)"
done

# configure, with as much around it as it takes to get to its first questions
mkdir -p "$work/tree/include"
cp -R "$top_srcdir/configure" "$top_srcdir/build-aux" "$work/tree"
cp "$top_srcdir/include/vpmm.h" "$work/tree/include"
# distcheck has a source that is read-only; the copy has to go away again.
chmod -R u+w "$work/tree"

# refuses SENTENCE ARGUMENTS: complains unless configure fails for this reason
refuses()
{
	sentence=$1
	shift
	(cd "$work/tree" && run 1 ./configure "$@"; says err "configure: error: $sentence")
}

for option in prefix exec-prefix libdir bindir; do
	verdict "configure refuses --$option with spaces" "$(
		refuses "--$option=/opt/a b: libtool cannot install below a directory with white space in its name" \
			--$option="/opt/a b")"
done

# A compiler that links for this machine, as programs for another may not link here, and compiles for 32 bits.
cat >"$work/cc32" <<TXT
#!/bin/sh
case " \$* " in
*' -c '*) exec $CC -m32 "\$@" ;;
esac
exec $CC "\$@"
TXT
chmod +x "$work/cc32"
echo 'typedef int four_bytes[sizeof(void *) == 4 ? 1 : -1];' >"$work/narrow.c"
if "$work/cc32" -c -o "$work/narrow.o" "$work/narrow.c" 2>/dev/null; then
	verdict "configure refuses a 32-bit build" "$(
		refuses "libvpmm needs a 64-bit machine" CC=../cc32 CFLAGS=)"
else
	skip "configure refuses a 32-bit build" "the compiler has no -m32"
fi

mkdir "$work/libc"
printf '#include_next <features.h>\n#undef __GLIBC__\n' >"$work/libc/features.h"
verdict "configure refuses another C library" "$(
	refuses "libvpmm needs the GNU C library, as the CUDA driver does" CC="$CC" CPPFLAGS=-I../libc)"

# Tests with so much to say that it does not fit into one write of a driver.
for name in a b c d; do
	cat >"$work/$name.sh" <<'TXT'
awk 'BEGIN { for (i = 1; i <= 2000; i++) print "ok " i " - case " i; print "1.." 2000 }'
TXT
done
parallel()
{
	run 0 make -C "$top_builddir" -j 4 check-TESTS check_PROGRAMS= check_LTLIBRARIES= \
		TESTS="$work/a.sh $work/b.sh $work/c.sh $work/d.sh" \
		TEST_SUITE_LOG="$work/suite.log"
	grep '^PASS: ' "$work/out" >"$work/passes"
	[ "$(wc -l <"$work/passes")" -eq 8000 ] || echo "$(wc -l <"$work/passes") results of 8000"
	[ "$(sed 's/ [0-9]* - .*//' "$work/passes" | uniq | wc -l)" -eq 4 ] || echo "results of several tests are mixed"
}
parallel_name="each of several tests at a time reports in one piece"
case $work in
*' '*) skip "$parallel_name" "make takes no test by a name that has a space" ;;
*)
	if grep -q '^OUTPUT_SYNC = .' "$top_builddir/Makefile"; then
		verdict "$parallel_name" "$(parallel)"
	else
		skip "$parallel_name" "make cannot"
	fi
	;;
esac

# header_version SOURCE: what the preprocessor makes of the last line
header_version()
{
	printf '#include <vpmm.h>\n%s\n' "$1" >"$work/version.c"
	$CC -E -P -Wundef -Werror -I"$top_srcdir/include" "$work/version.c" | tail -n 1
}

version=$("$work/tree/configure" --version | sed -n '1s/^libvpmm configure //p')
verdict "vpmm.h has configure's version" "$(
	parts=$(header_version 'VPMM_VERSION_MAJOR VPMM_VERSION_MINOR VPMM_VERSION_PATCH')
	[ "$(echo "$parts" | tr ' ' .)" = "$version" ] || echo "configure: $version, vpmm.h: $parts")"
verdict "its macros compare versions in #if" "$(
	for pair in '1 VPMM_VERSION_MAJOR,VPMM_VERSION_MINOR,VPMM_VERSION_PATCH' \
			'0 VPMM_VERSION_MAJOR,VPMM_VERSION_MINOR,VPMM_VERSION_PATCH+1' \
			'0 VPMM_VERSION_MAJOR,VPMM_VERSION_MINOR+1,0' '0 VPMM_VERSION_MAJOR+1,0,0' '1 0,0,0'; do
		got=$(header_version "
#if VPMM_VERSION_AT_LEAST(${pair#* })
1
#else
0
#endif")
		[ "$got" = "${pair%% *}" ] || echo "VPMM_VERSION_AT_LEAST(${pair#* }): $got"
	done)"
verdict "its number is that of the version" "$(
	got=$(header_version "
#if VPMM_VERSION_NUMBER == VPMM_VERSION_ENCODE($(echo "$version" | tr . ,)) && \
	VPMM_VERSION_ENCODE(1, 2, 3) > VPMM_VERSION_ENCODE(1, 1, 999)
1
#endif")
	[ "$got" = 1 ] || echo "VPMM_VERSION_NUMBER is another")"

# paragraph PACKAGE: its paragraph of debian/control
paragraph()
{
	awk -v package="$1" '/^$/ { inside = 0 } $0 == "Package: " package { inside = 1 } inside' "$debian/control"
}

# Whoever has the tools has the pages of section 7 that theirs refer to.
debian=$top_srcdir/debian
if [ -f "$debian/rules" ]; then
	owner=$(basename "$(grep -lx usr/share/man/man7 "$debian"/*.install)" .install)
	verdict "the Debian tools depend on vpmm(7)" "$(paragraph vpmm-tools | grep '^Depends:' | grep -qw "$owner" ||
		echo "vpmm-tools does not depend on $owner")"
else
	count=$((count + 1))
	echo "ok $count - the Debian tools depend on vpmm(7) # SKIP this is a release, without packages"
fi
echo "1..$count"

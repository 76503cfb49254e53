#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# What the public headers declare, what the version map names and what the shared object exports is the same.
set -u

object=$top_builddir/lib/.libs/libvpmm.so
map=$top_srcdir/lib/vpmm.map
if grep -q "^dlname=''" "$top_builddir/lib/libvpmm.la"; then
	echo "1..0 # SKIP built without a shared object"
	exit 0
fi

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

for header in "$top_srcdir"/include/*.h; do
	$CC -E -P -x c "$header" || exit 1
done | grep -o '\bvpmm_[a-z0-9_]*(' | tr -d '(' | sort -u >"$work/headers"
grep -o '\bvpmm_[a-z0-9_]*;' "$map" | tr -d ';' | sort -u >"$work/map"
$NM -D --defined-only "$object" >"$work/nm" || exit 1
awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' "$work/nm" | sort -u >"$work/object"

count=0
# all_in NAME OF_ALL IN: every line of the one file stands in the other
all_in()
{
	count=$((count + 1))
	missing=$(comm -23 "$work/$2" "$work/$3" | tr '\n' ' ')
	if [ -z "$missing" ] && [ -s "$work/$2" ]; then
		echo "ok $count - $1"
	else
		echo "not ok $count - $1"
		echo "# not there: ${missing:-any name at all}"
	fi
}

echo "1..6"
all_in "what the headers declare is in the map" headers map
all_in "what is in the map is declared in the headers" map headers
all_in "what is in the map is exported" map object
all_in "what is exported is in the map" object map

count=$((count + 1))
unversioned=$(awk '$2 != "A" && $3 !~ /@@VPMM_[0-9.]+$/ { print $3 }' "$work/nm" | tr '\n' ' ')
if [ -z "$unversioned" ]; then
	echo "ok $count - every export has a version"
else
	echo "not ok $count - every export has a version"
	echo "# without: $unversioned"
fi

count=$((count + 1))
if grep -aq '"soname":\["libcuda.so.1"\]' "$object"; then
	echo "ok $count - a note says what it opens at run time"
else
	echo "not ok $count - a note says what it opens at run time"
fi

#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# The fuzz targets, on the bytes that are kept for them, as they are and changed a little; and a short run of the soak.
set -u

. "$top_srcdir/tests/tap.sh"

for target in pool settings trace; do
	for file in "$top_srcdir"/tests/fuzz/corpus-$target/*; do
		verdict "$target $(basename "$file")" "$(run 0 "$top_builddir/tests/fuzz/fuzz-$target" "$file")"
	done
	verdict "$target changed" "$(run 0 "$top_builddir/tests/fuzz/fuzz-$target" -10 "$top_srcdir"/tests/fuzz/corpus-$target/*)"
done
verdict "soak" "$(run 0 "$top_builddir/tests/soak" 100000)"
echo "1..$count"

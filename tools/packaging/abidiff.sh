#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Whether programs that were built with another commit's library run with this tree's: nothing that they can name is gone
# or has changed, but for structures that are longer at their end, as each says its size.
#
#   tools/packaging/abidiff.sh [COMMIT [LIBRARY]]   COMMIT is HEAD~1; LIBRARY is this tree's libvpmm.so.0, built with
#                                                   debugging information, or is built here
#
# Exit status: 0, 1 if a change shows, 77 where there is no abidiff (on Debian it is in abigail-tools) or no such commit.
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
commit=${1:-HEAD~1}
library=${2-}
command -v abidiff >/dev/null || { echo "abidiff.sh: there is no abidiff" >&2; exit 77; }
commit=$(git -C "$top" -c safe.directory="$top" rev-parse -q --verify "$commit^{commit}") || {
	echo "abidiff.sh: there is no commit ${1:-HEAD~1}" >&2
	exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# build SOURCE BUILD: the library alone
build()
{
	mkdir -p "$2"
	[ -x "$1/configure" ] || "$1/bootstrap" --no-install >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
	(cd "$2" && "$1/configure" -q && make -s lib/libvpmm.la) >"$work/log" 2>&1 || {
		cat "$work/log" >&2
		exit 1
	}
}

mkdir "$work/old"
git -C "$top" -c safe.directory="$top" archive "$commit" | tar -x -C "$work/old"
build "$work/old" "$work/old/build"
if [ -z "$library" ]; then
	build "$top" "$work/new"
	library=$work/new/lib/.libs/libvpmm.so.0
fi

cat >"$work/grown" <<TXT
[suppress_type]
  type_kind = struct
  has_data_member_inserted_at = end
TXT
# compare OPTIONS
compare()
{
	abidiff --no-added-syms --headers-dir1 "$work/old/include" --headers-dir2 "$top/include" "$@" \
		"$work/old/build/lib/.libs/libvpmm.so.0" "$library"
}

# Most commits change nothing at all; abidiff 2.2 may crash on what is suppressed then.
compare >"$work/plain" 2>&1 || compare --suppressions "$work/grown" || {
	cat "$work/plain"
	exit 1
}

#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# A malloc and a free that a cache serves take as many instructions as ever if features are there that the pool does not
# use. callgrind counts them.
set -u

. "$top_srcdir/tests/support/tap.sh"
program=$top_builddir/tests/support/hot-pairs
VPMM_BACKEND=host
export VPMM_BACKEND

# instructions PAIRS [beside]: those of the whole program
instructions()
{
	"$top_builddir/libtool" --mode=execute valgrind --tool=callgrind --callgrind-out-file=/dev/null \
		"$program" "$@" 2>&1 | sed -n 's/.*Collected : *//p'
}

# of_pairs [beside]: those of 1000 pairs
of_pairs()
{
	echo $(($(instructions 1100 "$@") - $(instructions 100 "$@")))
}

case "${SANITIZE_CFLAGS:-}" in
?*)
	skip "a pair costs the same beside features" "sanitizers count, too"
	;;
*)
	if [ "$(present valgrind --version)" = missing ]; then
		skip "a pair costs the same beside features" "no valgrind"
	else
		# Where blocks lie, other addresses, decides on single instructions of a few pairs.
		alone=$(of_pairs) beside=$(of_pairs beside)
		verdict "a pair costs the same beside features" "$(
			[ "$alone" -gt 1000 ] && [ $((alone - beside)) -lt 500 ] && [ $((beside - alone)) -lt 500 ] ||
			echo "1000 pairs take $alone instructions, and $beside beside features that the pool does not use")"
	fi
esac
echo "1..$count"

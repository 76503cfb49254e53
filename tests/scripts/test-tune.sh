#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# The evidence for the policy: the same figures each time, and an error for what tune cannot run.
set -u

. "$top_srcdir/tests/support/tap.sh"

tune=$top_builddir/tests/tune/tune
if [ -n "$SANITIZE_CFLAGS" ]; then
	echo "1..0 # SKIP the figures are the same with sanitizers, and take long"
	exit 0
fi

# figures ARGUMENTS: the ratios of some programs
figures()
{
	"$tune" --each --seeds=1 --only="last in" --only="hand on" "$@"
}

verdict "the same figures twice, with one process and two" "$(
	figures --jobs=1 >"$work/first" 2>&1 || cat "$work/first"
	figures --jobs=2 >"$work/second" 2>&1 || cat "$work/second"
	cmp "$work/first" "$work/second")"
verdict "what is taken is no less than what is live" "$(
	awk '/^(last in|streams that)/ { n++; sub(/.* 1  +/, ""); if ($1 < 1) print } END { if (n != 2) print n " programs" }' \
		"$work/first")"
verdict "no seeds" "$(run 2 "$tune" --seeds=0; says err "--seeds"; silent out)"
verdict "a trace that is none" "$(run 2 "$tune" /dev/null; says err "/dev/null"; silent out)"
echo "1..$count"

#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# READMEs and NEWS are short. The files, functions, structures and pages that README and lib/README name exist.
set -u

. "$top_srcdir/tests/support/tap.sh"

inside=$top_srcdir/lib/README

# named PATTERN: what lib/README names in this way, a line each
named()
{
	grep -oE "$1" "$inside" | sort -u
}

echo "1..6"

named '\b([a-z]+/)+[a-z-]+\.[ch]\b' | while read -r file; do
	case $file in
	include/* | tests/*) echo "$(present test -f "$top_srcdir/$file") $file" ;;
	*) echo "$(present test -f "$top_srcdir/lib/$file") $file" ;;
	esac
done >"$work/files"
none_left "every file that lib/README names is there" "$work/files"

cat "$top_srcdir"/lib/*/*.[ch] "$top_srcdir"/include/*.h >"$work/sources"
named '\b[a-z]+(_[a-z0-9]+)+\b|\b[a-z0-9_]+\(\)' | tr -d '()' | while read -r function; do
	echo "$(present grep -w "$function" "$work/sources") $function"
done >"$work/functions"
none_left "every function and field that lib/README names is there" "$work/functions"

named '\b(struct [a-z_]+|(BLOCK|REGION|VPMM)_[A-Z_]*[A-Z])\b' | while read -r name; do
	echo "$(present grep -rw "$name" "$work/sources" "$top_srcdir/tests") $name"
done >"$work/names"
none_left "every structure and constant that lib/README names is there" "$work/names"

grep -hoE '\bman [37]? ?vpmm[a-z_-]*' "$top_srcdir/README" "$inside" "$top_srcdir/lib/HACKING" | sed 's/^man *[37]* *//' | sort -u |
while read -r page; do
	echo "$(present ls "$top_srcdir/man/$page".[137]) $page"
done >"$work/pages"
none_left "every page that the READMEs name is there" "$work/pages"

# at_most LINES FILE: complains of a longer one
at_most()
{
	[ "$(wc -l <"$2")" -le "$1" ] || echo "$2 has more than $1 lines"
}

verdict "README has at most 120 lines, NEWS 40 and lib/README 400" "$(
	at_most 120 "$top_srcdir/README"
	at_most 40 "$top_srcdir/NEWS"
	at_most 400 "$inside")"
sed -n 's/^ //p' "$top_srcdir/debian/control" >"$work/packages"
verdict "sentences of README, NEWS and the packages have at most 25 words, and begin with a noun" "$(
	awk -f "$top_srcdir/tests/support/sentences.awk" "$top_srcdir/README" "$top_srcdir/NEWS" "$work/packages")"

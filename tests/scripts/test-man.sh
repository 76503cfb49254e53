#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# What a user can call, set or read is in a manual page, and the pages are well formed and installed.
set -u

man=$top_srcdir/man
. "$top_srcdir/tests/support/tap.sh"

# struct and field, a line each, of the structures that the headers define
fields()
{
	cat "$top_srcdir"/include/*.h | awk '
		/^struct [a-z_]+ \{$/ { name = $2; next }
		/^\}/ { name = "" }
		name != "" { sub(/\[.*/, ""); gsub(/[;*]/, ""); print name, $NF }'
}

for header in "$top_srcdir"/include/*.h; do
	$CC -E -P -x c "$header" || exit 1
done | grep -o '\bvpmm_[a-z0-9_]*(' | tr -d '(' | sort -u >"$work/functions"

find "$top_srcdir/lib" "$top_srcdir/tools" "$top_srcdir/include" -name '*.[ch]' -exec cat {} + >"$work/sources"

# What man finds: the pages, and links by the names of the calls that they are about.
(cd "$top_builddir" && MAKEFLAGS='' make -s install-man-links DESTDIR= man3dir="$work/man3") >"$work/log" 2>&1 ||
	cat "$work/log" >&2
cp "$man"/*.3 "$work/man3"

# found NAME SECTION: whether man finds it
found()
{
	if [ "$2" != 3 ]; then
		test -f "$man/$1.$2"
	else
		test -f "$work/man3/$(sed -n 's,^\.so man3/,,p; q' "$work/man3/$1.3" | grep . || echo "$1.3")"
	fi 2>/dev/null
}

echo "1..22"

while read -r function; do
	echo "$(present found "$function" 3) $function(3)"
done <"$work/functions" >"$work/pages"
none_left "every function has a page" "$work/pages"

for header in vpmm.h vpmm-shared.h; do
	$CC -E -P -x c "$top_srcdir/include/$header"
done | grep -o '\bvpmm_[a-z0-9_]*(' | tr -d '(' | sort -u | while read -r function; do
	echo "$(present grep -wE "^\.(It )?(Xr|Fn|Fo) $function" "$man/vpmm.3") $function"
done >"$work/listed"
none_left "vpmm(3) lists every call of vpmm.h and vpmm-shared.h" "$work/listed"

sed -n '/^\.Sh SYNOPSIS/,/^\.Sh DESCRIPTION/p' "$man/vpmm.3" >"$work/synopsis"
$CC -E -P -x c "$top_srcdir/include/vpmm.h" | grep -o '\bvpmm_[a-z0-9_]*(' | tr -d '(' | sort -u |
while read -r function; do
	echo "$(present grep -wE "^\.F[no] $function" "$work/synopsis") $function"
done >"$work/declared"
none_left "the synopsis of vpmm(3) has every call of vpmm.h" "$work/declared"

for page in "$man"/*.3; do
	sed -n '/^\.Sh SYNOPSIS/,/^\.Sh DESCRIPTION/p' "$page" >"$work/synopsis"
	sed -n 's/^struct \(vpmm_[a-z_]*\) {$/\1/p' "$work/synopsis" | while read -r name; do
		fields | sed -n "s/^$name //p" | while read -r field; do
			echo "$(present grep -E "[ *]$field(\[[0-9]*\])?;" "$work/synopsis") ${page##*/}: $name.$field"
		done
	done
done >"$work/structures"
none_left "a structure in a synopsis has every field" "$work/structures"

sed -n 's/^enum \(vpmm_[a-z_]*\) {/\1/p' "$top_srcdir/include/vpmm.h" | while read -r name; do
	echo "$(present grep -w "Vt enum $name" "$man/vpmm.3") $name"
done >"$work/enums"
none_left "vpmm(3) lists every enumeration of vpmm.h" "$work/enums"

verdict "a call has the same errors in its page as in its header" "$(
	awk -f "$top_srcdir/tests/support/errors.awk" "$top_srcdir"/include/*.h "$man"/*.3 | sort)"

grep -o '"VPMM_[A-Z_]*"' "$work/sources" | tr -d '"' | sort -u |
while read -r variable; do
	echo "$(present grep -w "$variable" "$man"/*.[1-8]) $variable"
done >"$work/variables"
none_left "every variable of the environment is in a page" "$work/variables"

fields | while read -r name field; do
	page=$(grep -lwZ "struct $name" "$man"/*.3 |
		xargs -0 grep -lE "^\.(It (Fa|Va) (.* )?|Fa [a-z]*->)$field( |\$)")
	echo "$(present test -n "$page") $name.$field"
done >"$work/fields"
none_left "every field of the public structures is in a page" "$work/fields"

grep -oE '\{ "[a-z_]+", stats->' "$top_srcdir/lib/calls/dump.c" | cut -d '"' -f 2 | while read -r name; do
	echo "$(present grep -w "$name" "$man/vpmm_pool_dump.3") $name"
done >"$work/metrics"
none_left "every metric of a dump is in vpmm_pool_dump(3)" "$work/metrics"

for name in $(fields | sed -n 's/^vpmm_opts //p' | grep -vx size); do
	echo "$(present grep -E "(FIELD|NUMBER)\($name\)" "$top_srcdir/lib/settings/options.c") $name"
done >"$work/options"
none_left "every field of struct vpmm_opts is in the table of options" "$work/options"

# Only the library's own pages: those of others need not be on this machine.
grep -ho '^\.Xr vpmm[a-z_.-]* [1-8]' "$man"/*.[1-8] | sort -u | while read -r _ name section; do
	echo "$(present found "$name" "$section") $name($section)"
done >"$work/references"
none_left "every page that a page refers to is there" "$work/references"

# The macros of vpmm.hpp are named, too. A title is in capitals.
find "$top_srcdir/include" -name '*.hpp' -exec cat {} + >>"$work/sources"
cat "$man"/*.[1-8] "$top_srcdir/README" "$top_srcdir/NEWS" | grep -v '^\.Dt ' >"$work/texts"
grep -owE 'VPMM_[A-Z0-9_]*' "$work/texts" | sort -u | while read -r name; do
	echo "$(present grep -w "$name" "$work/sources") $name"
done >"$work/named"
none_left "every setting and constant that a page, README or NEWS names exists" "$work/named"

{
	grep -oE '^\.(It )?F[no] vpmm_[a-z_]*' "$work/texts"
	grep -oE '\bvpmm_[a-z_]*\(\)' "$top_srcdir/README" "$top_srcdir/NEWS"
} | grep -oE 'vpmm_[a-z_]*' | sort -u | while read -r function; do
	echo "$(present grep -w "$function" "$work/sources") $function"
done >"$work/called"
none_left "every call that a page, README or NEWS names exists" "$work/called"

for tool in bench info pause replay run top; do
	grep -ohE 'Fl -[a-z-]+' "$man/vpmm-$tool.1" | sed 's/^Fl -//' | sort -u | while read -r option; do
		echo "$(present grep -rw "\"$option\"" "$top_srcdir/tools") vpmm-$tool --$option"
	done
done >"$work/accepted"
none_left "every option that a tool's page names exists" "$work/accepted"

# Options in one form, such as "-b --backend=": of a tool's help, of its page's list and, without letters, synopsis.
helped()
{
	"vpmm-$1" --help | sed -nE 's/^ +(-., )?(--[a-z]+=?).*/\1\2/p' | tr -d ,
}
listed()
{
	sed -nE 's/^\.It (Fl (.) , )?Fl -([a-z]+)( Ns( Op)? (=))?.*/-\2 --\3\6/p' "$man/vpmm-$1.1" | sed 's/^- //'
}
summarized()
{
	sed -n '/^\.Sh SYNOPSIS/,/^\.Sh DESCRIPTION/p' "$man/vpmm-$1.1" | grep -oE 'Fl -[a-z]+( Ns( Op)? =)?' |
		sed -E 's/^Fl -/--/; s/ Ns.*/=/'
}
verdict "a tool's help, its page's list and its page's synopsis have the same options" "$(
	for tool in bench info pause replay run top; do
		helped $tool | sort >"$work/wanted"
		[ "$(wc -l <"$work/wanted")" -gt 2 ] || echo "vpmm-$tool --help has no options"
		listed $tool | sort | diff "$work/wanted" - >"$work/out" || sed "s/^/vpmm-$tool(1), list: /" "$work/out"
		sed 's/^-. //' "$work/wanted" | sort >"$work/long"
		summarized $tool | sort -u | diff "$work/long" - >"$work/out" ||
			sed "s/^/vpmm-$tool(1), synopsis: /" "$work/out"
	done)"

for page in "$man"/*.[1-8]; do
	awk -f "$top_srcdir/tests/support/sentences.awk" "$page" | sed "s/^/${page##*/}: /"
done >"$work/sentences"
verdict "sentences of the pages have at most 25 words, and begin with a noun" "$(cat "$work/sentences")"

# A string can also be a constant of the headers, in a message.
# Those of the preload object are none of a pool's.
grep -rho --include='*.[ch]' --exclude-dir=preload '"VPMM_[A-Z_]*[A-Z]"' "$top_srcdir/lib" | tr -d '"' | sort -u |
	grep -vx VPMM_PRELOAD | while read -r variable; do
	! grep -qw "$variable" "$top_srcdir"/include/*.h || continue
	echo "$(present grep -w "$variable" "$man/vpmm-tuning.7") $variable"
done >"$work/tuned"
none_left "vpmm-tuning(7) has every setting of the library" "$work/tuned"

sed -n 's/^[a-z].*\(\bvpmm_[a-z_]*\)(.*/\1/p' "$top_srcdir/include/vpmm.h" | sort -u | while read -r function; do
	echo "$(present grep -wE "(Xr|Fn) $function" "$man/vpmm-migration.7") $function"
done >"$work/migrated"
none_left "vpmm-migration(7) has every call of vpmm.h" "$work/migrated"

for page in "$man"/*.[1-8]; do
	page=${page##*/}
	echo "$(present grep -w "man/$page" "$man/Makemodule.am") $page"
done >"$work/installed"
none_left "every page is installed" "$work/installed"

# lint NAME COMMAND...: a program that finds fault with the pages; skipped where it is not installed
lint()
{
	lint_name=$1
	shift
	if command -v "$1" >/dev/null; then
		# What groff says since 1.23 of a line of one word, which it cannot spread to the margin, is no fault.
		verdict "$lint_name" "$(cd "$man" && "$@" ./*.[1-8] 2>&1 | grep -v ': cannot adjust line$')"
	else
		count=$((count + 1))
		echo "ok $count - $lint_name # SKIP $1 is not installed"
	fi
}

lint "mandoc has nothing to say" mandoc -T lint -W warning
# What most readers have, and more: it breaks tables in other places.
lint "groff fits the pages into 80 columns" groff -mandoc -Tutf8 -Kutf8 -rLL=78n -w break -z

# made_html: make html, and the pages that others refer to and that are not there
made_html()
{
	(cd "$top_builddir" && MAKEFLAGS='' make -s html html_dir="$work/html") 2>&1 >/dev/null
	grep -oh 'href="vpmm[^"#]*' "$work"/html/*.html | sed 's/^href="//' | sort -u | while read -r page; do
		[ -e "$work/html/$page" ] || echo "$page"
	done
}

if command -v mandoc >/dev/null; then
	verdict "make html has every page" "$(made_html)"
else
	count=$((count + 1))
	echo "ok $count - make html has every page # SKIP mandoc is not installed"
fi

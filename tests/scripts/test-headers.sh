#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Each public header compiles alone, twice, in every dialect that it promises, and links by the same names.
set -u

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
strict="-pedantic -Wall -Wextra -Wundef -Werror"
count=0

# verdict NAME COMMAND...: what the command says when it fails is the diagnosis
verdict()
{
	name=$1
	shift
	count=$((count + 1))
	if "$@" >"$work/log" 2>&1; then
		echo "ok $count - $name"
	else
		echo "not ok $count - $name"
		sed 's/^/# /' "$work/log"
	fi
}

skip()
{
	count=$((count + 1))
	echo "ok $count - $1 # SKIP $2"
}

unmangled()
{
	"$@" && $NM "$work/call.o" | grep -q ' U vpmm_version$'
}

echo "1..15"
for header in vpmm vpmm-host vpmm-shared; do
	printf '#include "%s.h"\n#include "%s.h"\nint nothing;\n' $header $header >"$work/$header.c"
	cp "$work/$header.c" "$work/$header.cc"
	for std in c99 c11; do
		verdict "$header.h as $std" $CC -std=$std $strict -I"$top_srcdir/include" -fsyntax-only "$work/$header.c"
	done
	for std in c++98 c++17; do
		if [ -z "$CXX" ]; then
			skip "$header.h as $std" "there is no C++ compiler"
		else
			verdict "$header.h as $std" $CXX -std=$std $strict -Wshadow -I"$top_srcdir/include" -fsyntax-only \
				"$work/$header.cc"
		fi
	done
done

printf '#include "vpmm.h"\nconst char *call(void);\nconst char *call(void) { return vpmm_version(); }\n' >"$work/call.c"
cp "$work/call.c" "$work/call.cc"
verdict "a call from C" unmangled $CC -I"$top_srcdir/include" -c -o "$work/call.o" "$work/call.c"
if [ -z "$CXX" ]; then
	skip "a call from C++" "there is no C++ compiler"
else
	verdict "a call from C++" unmangled $CXX -I"$top_srcdir/include" -c -o "$work/call.o" "$work/call.cc"
fi

# What a comment of kernel-doc is about, if it does not say since which version that is there.
undated()
{
	awk '
		/^\/\*\*$/ { getline; about = $0; dated = 0; inside = 1 }
		/Since: [0-9]/ { dated = 1 }
		inside && /\*\/$/ { if (!dated) { print FILENAME ":" about; failed = 1 } inside = 0 }
		END { exit failed }
	' "$top_srcdir"/include/*.h
}
verdict "each comment of kernel-doc has a version" undated

#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Static analysis of lib/, tools/ and tests/ by clang-tidy, cppcheck and gcc -fanalyzer: LINT_TOOLS has those to run,
# LINT_FILES the files if not all are meant.
#
# make lint calls it. What they find wrongly is argued in tests/scripts/lint-suppressions, by file, check and the line itself; all
# else fails, and so does an argument that nothing needs any more.
set -u

top_srcdir=$(cd "$top_srcdir" && pwd)
build=$PWD
out=$build/lint
mkdir -p "$out"
rm -f "$out"/*.found "$out/used"
: >"$out/used"
cd "$top_srcdir" || exit 1
# shellcheck disable=SC2086 # names are words
sources=$(ls lib/*/*.c tools/*.c tests/*/*.c | grep -v '^tests/cuda/check-abi\.c$')
if [ -n "${LINT_FILES-}" ]; then
	sources=$(for file in $LINT_FILES; do echo "$sources" | grep -xF "$file"; done)
	[ -n "$sources" ] || exit 0
fi
# The directory is any string.
includes="-I$build -Iinclude -Ilib -Ipython -Itools -Itests -Itests/cpp/stubs/arrayfire -Itests/cpp/stubs/onnxruntime -DFAKE_CUDA_DIR=__FILE__ -DPRELOAD_OBJECT=__FILE__ -DSECOND_OBJECT=__FILE__ -DQUOTA_OBJECT=__FILE__ -DPRELOAD_DIR=__FILE__"
failed=0

has()
{
	command -v "$1" >/dev/null || {
		echo "make lint: there is no $1 here"
		return 1
	}
}

# Each prints FILE:LINE: CHECK: MESSAGE for what it finds.
by_clang_tidy()
{
	# shellcheck disable=SC2086
	printf '%s\n' $sources | nice xargs -P "$LINT_JOBS" -n 4 sh -c 'clang-tidy --quiet "$@" -- '"-Wthread-safety $includes $LINT_CFLAGS"' 2>/dev/null' - |
		sed -n "s,^$top_srcdir/\([^:]*:[0-9]*\):[0-9]*: \(warning\|error\): \(.*\) \[\([^],]*\).*\],\1: \4: \3,p"
}

by_cppcheck()
{
	# shellcheck disable=SC2086
	cppcheck -q --std=c11 --enable=warning,performance,portability --library=gtk -DHAVE_CONFIG_H $includes \
		--template='{file}:{line}: {id}: {message}' $sources 2>&1
}

# Threads of a program, which may have 16 KiB of stack in all, call the library.
by_gcc()
{
	# shellcheck disable=SC2086
	printf '%s\n' $sources | nice xargs -P "$LINT_JOBS" -n 1 \
		gcc -fanalyzer -Wframe-larger-than=4096 -O2 $includes $LINT_CFLAGS -c -o /dev/null 2>&1 |
		sed -n -e 's,^\([^:]*:[0-9]*\):[0-9]*: warning: \(.*\) \[-W\(analyzer[a-z-]*\)\],\1: \3: \2,p' \
			-e 's,^\(lib/[^:]*:[0-9]*\):[0-9]*: warning: \(.*\) \[-W\(frame-larger-than\)=.*\],\1: \3: \2,p' |
		sed 's, \[CWE-[0-9]*\]$,,'
}

# An argument's line is FILE CHECK, a tab, and the line of the source, with the one before where it is short.
judge()
{
	sort -u "$1" | while IFS= read -r found; do
		file=${found%%:*}
		line=${found#*:}
		line=${line%%:*}
		check=${found#*: }
		check=${check%%:*}
		text=$(sed -n "${line}{s/^[[:space:]]*//;p;}" "$file")
		# A brace or so says nothing by itself.
		[ ${#text} -ge 12 ] || text="$(sed -n "$((line - 1)){s/^[[:space:]]*//;p;}" "$file") $text"
		if grep -qxF "$file $check	$text" tests/scripts/lint-suppressions; then
			printf '%s\n' "$file $check	$text" >>"$out/used"
		else
			printf '%s\n\t%s\n' "$found" "$text"
		fi
	done
}

# cppcheck has one process, and takes longest: the others run beside it, and give way.
for tool in $LINT_TOOLS; do
	has "$tool" || continue
	name=$(echo "$tool" | tr - _)
	by_"$name" >"$out/$tool.found" &
done
wait
for tool in $LINT_TOOLS; do
	[ -e "$out/$tool.found" ] || continue
	judge "$out/$tool.found" >"$out/$tool.left"
	echo "$tool: $(sort -u "$out/$tool.found" | wc -l) findings, $(grep -c '^[^	]' "$out/$tool.left") of them not argued"
	[ ! -s "$out/$tool.left" ] || { cat "$out/$tool.left"; failed=1; }
done
if [ -z "${LINT_FILES-}" ] && [ "$LINT_TOOLS" = "clang-tidy cppcheck gcc" ] && [ "$(ls "$out"/*.found | wc -l)" -eq 3 ]; then
	stale=$(grep '	' tests/scripts/lint-suppressions | grep -vxFf "$out/used")
	[ -z "$stale" ] || { printf 'argued, and not found any more:\n%s\n' "$stale"; failed=1; }
fi
exit $failed

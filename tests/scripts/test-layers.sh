#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# The folders of lib/ are layers: what a file includes, and whom it calls, is in its own folder or below.
set -u

. "$top_srcdir/tests/support/tap.sh"

# A folder, and those that it may use besides itself. api/ may use all. preload/ and torch/ are objects of their
# own, which have the public headers and the declarations of the driver.
cat >"$work/layers" <<'END'
api calls shared warm policy pending core settings budget backend cuda host trace util
preload cuda
torch cuda
calls shared warm policy pending core settings budget backend trace util
shared policy pending core settings backend util
warm policy core settings util
policy pending core settings backend util
pending core settings backend util
core settings budget backend trace util
settings budget backend util
budget util
cuda backend util
host backend util
backend util
trace util
util
END
# The exceptions: somebody has to know which backends there are, and the C library's dlsym() is no call of ours.
cat >"$work/allowed" <<'END'
backend/backend.c backend_cuda
backend/backend.c backend_host
cuda/driver.c dlsym
torch/device.c dlsym
trace/frames-python.c dlsym
torch/raise.c dlsym
END

# judge: of lines FILE USED WHAT, those where the folder of FILE may not use that of USED
judge()
{
	awk -v layers="$work/layers" -v allowed="$work/allowed" '
		function folder(file) {
			return substr(file, 1, index(file, "/") - 1)
		}
		BEGIN {
			while ((getline line <layers) > 0) {
				n = split(line, word, " ")
				for (i = 1; i <= n; i++)
					may[word[1], word[i]] = 1
			}
			while ((getline line <allowed) > 0)
				exempt[line] = 1
		}
		# Linked with the library as any program is. The allocator class is compiled where it is installed.
		folder($1) == "torch" && $3 ~ /^vpmm[_\/]/ { next }
		# These need no GLib.
		folder($1) ~ /^(preload|torch)$/ && $2 ~ /^util\/(captures|clock|descriptor|lender|text)\.[ch]$/ { next }
		!may[folder($1), folder($2)] && !exempt[$1 " " $3] { print $1 " uses " $3 " of " $2 }'
}

# includes DIR: FILE HEADER HEADER, for each include that names a folder, in the sources below DIR
includes()
{
	(cd "$1" && grep -E '^[[:space:]]*#[[:space:]]*include[[:space:]]+"[a-z]+/' ./*/*.[ch] 2>/dev/null) |
		sed -n 's,^\./\([^:]*\):[^"]*"\([^"]*\)".*,\1 \2 \2,p'
}

# unlisted DIR: sources below DIR that its Makemodule.am does not name, and which a tarball lacks
unlisted()
{
	(cd "$1" && ls ./*/*.[ch]) | sed 's,^\./,,' | while read -r file; do
		grep -qF "/$file" "$1/Makemodule.am" || echo "$file"
	done
}

# bare DIR: includes that name no folder, and are none of the public headers or of configure
bare()
{
	(cd "$1" && grep -E '^[[:space:]]*#[[:space:]]*include[[:space:]]+"[^/"]+"' ./*/*.[ch] 2>/dev/null) |
		grep -vE '"(config|vpmm|vpmm-host|vpmm-shared|cuda)\.h"'
}

# objects DIR SOURCES: FILE OBJECT, for each source that has been compiled below DIR; stale objects have none
objects()
{
	(cd "$2" && ls ./*/*.c 2>/dev/null) | sed 's,^\./,,' | while read -r file; do
		stem=${file%.c}
		hidden=${stem%/*}/.libs/${stem##*/}.o
		# With flags of its own, an object is named after its library as well.
		for object in "$1/$hidden" "$1/$stem.o" "$1/${stem%/*}"/.libs/*_la-"${stem##*/}.o"; do
			if [ -f "$object" ]; then
				echo "$file $object"
				break
			fi
		done
	done
}

# calls DIR SOURCES: FILE DEFINER SYMBOL, for each symbol that the object of one file has from that of another
calls()
{
	objects "$1" "$2" | while read -r file object; do
		$NM "$object" | sed -n "s,^.*  *\([A-Za-z]\) \([A-Za-z_][A-Za-z0-9_]*\)\$,$file \1 \2,p"
	done >"$work/symbols"
	awk '$2 == "U" { from[++n] = $1; symbol[n] = $3; next }
	     $2 ~ /[A-Z]/ { home[$3] = $1 }
	     END {
		for (i = 1; i <= n; i++) {
			if (symbol[i] in home && home[symbol[i]] != from[i])
				print from[i], home[symbol[i]], symbol[i]
		}
	     }' "$work/symbols"
}

# circles: of the same lines, the files that use one another in a circle
circles()
{
	awk '{ print $1, $2 }' | sort -u | tsort 2>&1 >/dev/null
}

# twice DIR: NAME FILE FILE, for each function that more than one source below DIR defines. lock_as_another() is a
# function or an empty one in the header, as --enable-debug says.
twice()
{
	(cd "$1" && awk -f "$top_srcdir/tests/support/functions.awk" ./*/*.[ch]) | sed 's, \./, ,' | sort -u |
		awk '{ files[$1] = files[$1] " " $2; count[$1]++ }
		     END { for (name in count) if (count[name] > 1) print name files[name] }' |
		grep -vx "lock_as_another util/lock\.c util/lock\.h"
}

# defined: of a list of objects, the names that they have for all that they are linked with
defined()
{
	while read -r object; do
		$NM -g "$object"
	done | awk 'NF == 3 && $2 != "U" { print $3 }' | sort -u
}

# shared_names DIR SOURCES TOOLS: names of the library that the objects in TOOLS have as well. A program that is linked
# with libvpmm.a has both.
shared_names()
{
	objects "$1" "$2" | grep -v '^preload/\|^torch/' | cut -d ' ' -f 2- | defined >"$work/names"
	printf '%s\n' "$3"/*.o | defined | comm -12 "$work/names" -
}

# outdated DIR: what reads by its name a list or a sum that is updated late, or which regions are free, and not through
# the call that updates it (core/region-loose.h). calls/check.c updates all of them, and looks at each.
outdated()
{
	(cd "$1" && grep -nE '((extents|regions|spans|map|same|set)(\.|->)(whole|ready|sizes|by_size|gaps|mallocs|new_mallocs|late|loose)|(regions|spans)(\.|->)by_age|(stream|joined)->zombies)\>|bytes\[REGION_(FREE|ZOMBIE)|kind [!=]= REGION_(FREE|LOOSE)|stream_poll_busy\(.*true' \
		api/*.c calls/*.c shared/*.c warm/*.c policy/*.c pending/*.c 2>/dev/null) |
		grep -Ev '^calls/check\.c:|^policy/gather-plan\.c:[0-9]+:.*same->whole'
}

# planned DIR: functions that a plan reaches, and that change the core: they call the driver, or change a list, a map or
# a counter. A search leaves marks (near, stamp), takes references and locks, and brings up to date what is listed late.
planned()
{
	(cd "$1" && awk -v from=./policy/plan.c -v also='^driver_(forecast|largest)$' \
		-v ends="event_ref event_unref brief_acquire brief_release region_update region_decide extent_update_whole ready_update" \
		-v marks='map->near = |extents\\.stamp\\+\\+|\\+\\+core->extents\\.stamp' \
		-v changes='ops->|links_[a-z]+\\(|g_(tree|hash_table|queue)_(insert|remove|push|pop|steal)|atomic_(store|fetch|exchange)|log_add\\(|(core|map|stream|packed|memo|event|account)->[a-z_.>-]+ *([-+|&]=|=[^=]|\\+\\+|--)|(\\+\\+|--)\\*?(core|map|stream|memo|event)->' \
		-f "$top_srcdir/tests/support/reached.awk" ./*/*.[ch])
}

# telling DIR: sources that look symbols up or open objects, and leave the error of that to the program's dlerror().
# Those of dlsym() itself answer the program.
telling()
{
	(cd "$1" && grep -lE '\<(dlopen|dlv?sym|real_dlsym|drv_load_library)\(' ./*/*.c 2>/dev/null) | sed 's,^\./,,' |
		grep -vxE 'preload/(doors|real)\.c' | while read -r file; do
			grep -q 'dlerror()' "$1/$file" || echo "$file"
		done
}

# growing DIR: sources that make files grow, also by streams, and do not ask for the file size limit, beyond which a
# signal ends the program. shared/handler.c and shared/touch.c write to pipes, and whoever calls trace/output.c blocks
# the signal.
growing()
{
	(cd "$1" && grep -lE '\<(write|fdopen|ftruncate|posix_fallocate)\(' ./*/*.c 2>/dev/null) | sed 's,^\./,,' |
		grep -vxE 'shared/(handler|touch)\.c|trace/output\.c' | while read -r file; do
			grep -q 'descriptor_may_have(' "$1/$file" || echo "$file"
		done
}

# opening DIR: sources that open files and leave the descriptor where the kernel put it. In a program that was started
# with a standard descriptor closed, what it prints goes to the file then.
opening()
{
	(cd "$1" && grep -lE '(^|[^>.[:alnum:]_])(open|openat|memfd_create|pipe2?|socket(pair)?|accept4?|g_mkstemp_full|eventfd)\(|fopen\([^)]*"[wa]' \
		./*/*.c 2>/dev/null) | sed 's,^\./,,' | while read -r file; do
			grep -q 'descriptor_raise(' "$1/$file" || echo "$file"
		done
}

# printing DIR: sources that print to standard error by fprintf(), which may take half of a small stack; text_warn() does
# not. util/lock.c of a debug build ends the program.
printing()
{
	(cd "$1" && grep -lE '\<fprintf\(stderr' ./*/*.c 2>/dev/null) | sed 's,^\./,,' | grep -vx 'util/lock\.c'
}

# A tree that breaks each rule once.
plant()
{
	mkdir -p "$work/planted/core/.libs" "$work/planted/calls/.libs" "$work/planted/util/.libs" "$work/planted/policy"
	printf 'int stream_ask(void)\n{\n\treturn be->ops->event_query(be);\n}\n' >"$work/planted/core/ask.c"
	printf 'static void step(void)\n{\n\tstream_ask();\n}\n' >"$work/planted/policy/plan.c"
	printf '#include "calls/above.h"\n#include "beside.h"\nextern int above(void);\nint below(void);\nint below(void)\n{\n\treturn above();\n}\n' \
		>"$work/planted/core/below.c"
	printf 'extern int below(void);\nint above(void);\nint above(void)\n{\n\treturn below();\n}\n' >"$work/planted/calls/above.c"
	printf 'return core->extents.whole.head;\n' >"$work/planted/calls/early.c"
	printf 'return region->next->kind == REGION_FREE;\n' >"$work/planted/policy/walk.c"
	printf 'return stream->zombies;\n' >"$work/planted/policy/zombies.c"
	printf 'return dlsym(RTLD_DEFAULT, "below");\n' >"$work/planted/util/look.c"
	printf 'return write(fd, text, length);\n' >"$work/planted/util/grow.c"
	printf 'return open(name, O_RDONLY);\n' >"$work/planted/util/open.c"
	printf 'fprintf(stderr, "below");\n' >"$work/planted/util/print.c"
	printf 'static int below(int of,\n\t\t int other)\n{\n\treturn of + other;\n}\n' >"$work/planted/util/below.c"
	for file in core/below calls/above; do
		sed '/#include/d' "$work/planted/$file.c" >"$work/plain.c"
		$CC -c -o "$work/planted/${file%/*}/.libs/${file##*/}.o" "$work/plain.c" || return 1
	done
}

includes "$top_srcdir/lib" >"$work/includes"
calls "$top_builddir/lib" "$top_srcdir/lib" >"$work/calls"
if [ ! -s "$work/calls" ]; then
	echo "1..0 # SKIP the symbols of the objects cannot be read"
	exit 0
fi

verdict "no source of lib/ or tools/ has more than 600 lines" "$(
	cd "$top_srcdir" && wc -l lib/*/*.[ch] tools/*.[ch] | awk '$2 != "total" && $1 > 600 { print $2 " has " $1 }')"
verdict "every source has a folder" "$(cd "$top_srcdir/lib" && ls ./*.[ch] 2>/dev/null)"
verdict "every source is in lib/Makemodule.am" "$(unlisted "$top_srcdir/lib")"
verdict "no include runs to a higher layer" "$(judge <"$work/includes")"
verdict "every include names its folder" "$(bare "$top_srcdir/lib")"
verdict "no call runs to a higher layer" "$(judge <"$work/calls")"
verdict "no files call one another in a circle" "$(circles <"$work/calls")"
verdict "no function is defined in two files" "$(twice "$top_srcdir/lib")"
verdict "no tool has a name of the library" "$(shared_names "$top_builddir/lib" "$top_srcdir/lib" "$top_builddir/tools")"
verdict "what is listed late is read through the call that updates it" "$(outdated "$top_srcdir/lib")"
verdict "a plan changes nothing" "$(planned "$top_srcdir/lib")"
verdict "no lookup leaves its error to the program" "$(telling "$top_srcdir/lib")"
verdict "no file grows beyond the limit of its size" "$(growing "$top_srcdir/lib")"
verdict "no file has the number of a standard descriptor" "$(opening "$top_srcdir/lib")"
verdict "no message takes a small stack" "$(printing "$top_srcdir/lib")"

plant >"$work/planted.log" 2>&1 || { cat "$work/planted.log" >&2; exit 1; }
includes "$work/planted" | judge >"$work/out"
verdict "an include that does is found" "$(says out "core/below.c uses calls/above.h")"
echo planted/core/below.c >"$work/planted/Makemodule.am"
unlisted "$work/planted" >"$work/out"
verdict "a source that is in no list is found" "$(says out "calls/above.c")"
bare "$work/planted" >"$work/out"
verdict "one without a folder is found" "$(says out "beside.h")"
calls "$work/planted" "$work/planted" >"$work/both"
judge <"$work/both" >"$work/out"
verdict "a call that does is found" "$(says out "core/below.c uses above of calls/above.c")"
circles <"$work/both" >"$work/out"
verdict "a circle is found" "$(says out "core/below.c")"
twice "$work/planted" >"$work/out"
verdict "a name that two files define is found" "$(says out "below core/below.c util/below.c")"
shared_names "$work/planted" "$work/planted" "$work/planted/core/.libs" >"$work/out"
verdict "a name that a tool has as well is found" "$(says out "below")"
outdated "$work/planted" >"$work/out"
verdict "a list that is read before it is updated is found" "$(says out "calls/early.c")"
verdict "a neighbour that is read in a map that is not settled is found" "$(says out "policy/walk.c")"
verdict "as are the zombies of a stream" "$(says out "policy/zombies.c")"
planned "$work/planted" >"$work/out"
verdict "a plan that asks the driver is found" "$(says out "stream_ask ./core/ask.c step")"
telling "$work/planted" >"$work/out"
verdict "a lookup that leaves its error is found" "$(says out "util/look.c")"
growing "$work/planted" >"$work/out"
verdict "a file that grows unasked is found" "$(says out "util/grow.c")"
opening "$work/planted" >"$work/out"
verdict "a file that is opened and not moved is found" "$(says out "util/open.c")"
printing "$work/planted" >"$work/out"
verdict "a message that does is found" "$(says out "util/print.c")"
echo "1..$count"

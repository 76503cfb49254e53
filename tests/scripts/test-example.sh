#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# The programs that the documentation shows compile, run on the host backend, and do what the text says. Those with
# kernels compile where there is nvcc; to run, they need a GPU.
set -u

CC=${CC:-cc}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
count=0
VPMM_BACKEND=host
export VPMM_BACKEND

verdict()
{
	count=$((count + 1))
	if [ "$2" = 0 ]; then
		echo "ok $count - $1"
	else
		echo "not ok $count - $1"
		sed 's/^/# /' "$work/log"
	fi
}

# The program of a text, from its fence to the next.
fenced()
{
	awk '/^```c$/ { inside = 1; next } /^```$/ { inside = 0 } inside' "$1"
}

# The program of a manual page.
displayed()
{
	sed -n '/^#include <stdio.h>$/,/^}$/{ s/\\e/\\/g; p; }' "$1"
}

# libtool takes no library and no source by a name that has a space.
build()
{
	[ "$2" = "$work/$1.c" ] || cp "$2" "$work/$1.c"
	(cd "$top_builddir" && ./libtool --silent --tag=CC --mode=link $CC -std=c99 ${SANITIZE_CFLAGS-} -Wall -Wextra \
		-Werror -I"$top_srcdir/include" -o "$work/$1" "$work/$1.c" lib/libvpmm.la) >"$work/log" 2>&1
}

run()
{
	"$work/$1" >"$work/out" 2>"$work/log"
}

# shows NAME PATTERN...: each pattern matches a line of the output, in this order
shows()
{
	shows_name=$1
	shift
	for pattern; do
		printf '%s\n' "$pattern"
	done | awk '
		NR == FNR { patterns[++wanted] = $0; next }
		found < wanted && $0 ~ patterns[found + 1] { found++ }
		END { if (found < wanted) { print "no line, in its place, matches: " patterns[found + 1]; exit 1 } }
	' - "$work/out" >"$work/log"
	result=$?
	[ $result = 0 ] || cat "$work/out" >>"$work/log"
	verdict "$shows_name" $result
}

if ! echo 'int main(void) { return 0; }' >"$work/probe.c" || ! $CC -o "$work/probe" "$work/probe.c" 2>/dev/null; then
	echo "1..0 # SKIP there is no C compiler that works ($CC)"
	exit 0
fi

echo "1..22"

fenced "$top_srcdir/README" >"$work/readme.c"
displayed "$top_srcdir/man/vpmm.3" >"$work/manual.c"
diff "$work/readme.c" "$work/manual.c" >"$work/log" 2>&1
verdict "vpmm(3) shows the README's program" $?

build readme "$work/readme.c"
verdict "the README's program compiles" $?
run readme
verdict "the README's program runs" $?
shows "the README's program prints what the README says" '^96 MiB mapped$'

build streams "$top_srcdir/man/examples/streams.c"
verdict "streams.c compiles" $?
run streams
verdict "streams.c runs" $?
shows "streams.c shows how memory goes from stream to stream" \
	'\[4\]\[\+1\]' '\[-4\]\[1\]' '\[~4\]\[1\]\[\+6\]' '^compute cannot go on: ' \
	'^copy did the fill and cannot go on: ' "^compute reads 'x' and 'x'$" '\[\*4\]\[1\]\[\+3\]\[-3\]'

displayed "$top_srcdir/man/vpmm_host_stream_create.3" >"$work/buffers.c"
build buffers "$work/buffers.c"
verdict "vpmm_host_stream_submit_for(3)'s program compiles" $?
run buffers
verdict "vpmm_host_stream_submit_for(3)'s program runs" $?
shows "vpmm_host_stream_submit_for(3)'s program overlaps copies and kernels" '^4300 us$'

build graph "$top_srcdir/man/examples/graph.c"
verdict "graph.c compiles" $?
run graph
verdict "graph.c runs" $?
shows "graph.c shows what a graph keeps, and until when" '^after the capture .* 4 MiB' '^launch 1: 2$' '^launch 2: 5$' \
	'^launch 3: 10$' '^without the graph .* 0 MiB' '^the output is 10$'

build list "$top_srcdir/man/examples/list.c"
verdict "list.c compiles" $?
run list
verdict "list.c runs" $?
shows "list.c shows that all follow the same pointers" '^the CPU has built 1 2 3 4 5 6 7 8$' \
	'^8 pages have moved, and 8 are on the device$' '^the CPU reads 80 70 60 50 40 30 20 10$' \
	'^0 pages are on the device$' '^the CPU reads 100 200 300 400 500 600 700 800$'

build turns "$top_srcdir/man/examples/turns.c"
verdict "turns.c compiles" $?
run turns
verdict "turns.c runs" $?
shows "turns.c shows that each model finds its weights" '^turn 0: weights of 1$' '^turn 9: weights of 2$'

# CUDA's calls and the program's own are macros. The include comes by an option, as the folder has an assert.h.
awk -f "$top_srcdir/tests/support/fragments.awk" "$top_srcdir"/man/*.[37] >"$work/fragments.c"
$CC -std=c99 -Wall -Wextra -Werror -I"$top_srcdir/include" -include "$top_srcdir/tests/support/fragments.h" \
	-fsyntax-only "$work/fragments.c" >"$work/log" 2>&1 && grep -q 'vpmm_malloc(' "$work/fragments.c"
verdict "the fragments of code in the pages compile" $?

nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)
for name in handoff list; do
	if [ -n "$nvcc" ]; then
		"$nvcc" -c -Werror all-warnings -Xcompiler -Wall,-Wextra,-Werror -I"$top_srcdir/include" \
			-o "$work/$name.o" "$top_srcdir/man/examples/$name.cu" >"$work/log" 2>&1
		verdict "$name.cu compiles" $?
	else
		count=$((count + 1))
		echo "ok $count - $name.cu compiles # SKIP there is no nvcc"
	fi
done

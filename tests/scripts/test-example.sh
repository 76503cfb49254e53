#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# The programs that the documentation shows compile, run on the host backend, and do what the text says. Those with
# kernels compile where there is nvcc; to run, they need a GPU.
set -u

CC=${CC:-cc}
. "$top_srcdir/tests/support/tap.sh"
ln -s "$top_srcdir/include" "$work/include"
VPMM_BACKEND=host
export VPMM_BACKEND

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

# builds NAME SOURCE: complains unless $work/NAME can be made of it
builds()
{
	[ "$2" = "$work/$1.c" ] || cp "$2" "$work/$1.c"
	link_program "$CC -std=c99 -Wall -Wextra -Werror -Iinclude" "$1" "$1.c" >"$work/log" 2>&1 || cat "$work/log"
}

# shows PATTERN...: complains unless each pattern matches a line of the output, in this order
shows()
{
	for pattern; do
		printf '%s\n' "$pattern"
	done | awk '
		NR == FNR { patterns[++wanted] = $0; next }
		found < wanted && $0 ~ patterns[found + 1] { found++ }
		END { if (found < wanted) { print "no line, in its place, matches: " patterns[found + 1]; exit 1 } }
	' - "$work/out" || cat "$work/out"
}

if ! echo 'int main(void) { return 0; }' >"$work/probe.c" || ! $CC -o "$work/probe" "$work/probe.c" 2>/dev/null; then
	echo "1..0 # SKIP there is no C compiler that works ($CC)"
	exit 0
fi

fenced "$top_srcdir/README" >"$work/readme.c"
displayed "$top_srcdir/man/vpmm.3" >"$work/manual.c"
verdict "vpmm(3) shows the README's program" "$(diff "$work/readme.c" "$work/manual.c")"

verdict "the README's program compiles" "$(builds readme "$work/readme.c")"
verdict "the README's program runs" "$(run 0 "$work/readme")"
verdict "the README's program prints what the README says" "$(shows '^96 MiB mapped$')"

verdict "streams.c compiles" "$(builds streams "$top_srcdir/man/examples/streams.c")"
verdict "streams.c runs" "$(run 0 "$work/streams")"
verdict "streams.c shows how memory goes from stream to stream" "$(shows \
	'\[4\]\[\+1\]' '\[-4\]\[1\]' '\[~4\]\[1\]\[\+6\]' '^compute cannot go on: ' \
	'^copy did the fill and cannot go on: ' "^compute reads 'x' and 'x'$" '\[\*4\]\[1\]\[\+3\]\[-3\]')"

displayed "$top_srcdir/man/vpmm_host_stream_create.3" >"$work/buffers.c"
verdict "vpmm_host_stream_submit_for(3)'s program compiles" "$(builds buffers "$work/buffers.c")"
verdict "vpmm_host_stream_submit_for(3)'s program runs" "$(run 0 "$work/buffers")"
verdict "vpmm_host_stream_submit_for(3)'s program overlaps copies and kernels" "$(shows '^4300 us$')"

verdict "graph.c compiles" "$(builds graph "$top_srcdir/man/examples/graph.c")"
verdict "graph.c runs" "$(run 0 "$work/graph")"
verdict "graph.c shows what a graph keeps, and until when" "$(shows '^after the capture .* 4 MiB' \
	'^launch 1: 2$' '^launch 2: 5$' '^launch 3: 10$' '^without the graph .* 0 MiB' '^the output is 10$')"

verdict "list.c compiles" "$(builds list "$top_srcdir/man/examples/list.c")"
verdict "list.c runs" "$(run 0 "$work/list")"
verdict "list.c shows that all follow the same pointers" "$(shows '^the CPU has built 1 2 3 4 5 6 7 8$' \
	'^8 pages have moved, and 8 are on the device$' '^the CPU reads 80 70 60 50 40 30 20 10$' \
	'^0 pages are on the device$' '^the CPU reads 100 200 300 400 500 600 700 800$')"

verdict "turns.c compiles" "$(builds turns "$top_srcdir/man/examples/turns.c")"
verdict "turns.c runs" "$(run 0 "$work/turns")"
verdict "turns.c shows that each model finds its weights" "$(shows '^turn 0: weights of 1$' '^turn 9: weights of 2$')"

# CUDA's calls and the program's own are macros. The include comes by an option, as the folder has an assert.h.
awk -f "$top_srcdir/tests/support/fragments.awk" "$top_srcdir"/man/*.[37] >"$work/fragments.c"
verdict "the fragments of code in the pages compile" "$(
	$CC -std=c99 -Wall -Wextra -Werror -I"$top_srcdir/include" -include "$top_srcdir/tests/support/fragments.h" \
		-fsyntax-only "$work/fragments.c" 2>&1
	grep -q 'vpmm_malloc(' "$work/fragments.c" || echo "there are none")"

nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)
for name in handoff list; do
	if [ -n "$nvcc" ]; then
		verdict "$name.cu compiles" "$("$nvcc" -c -Werror all-warnings -Xcompiler -Wall,-Wextra,-Werror \
			-I"$top_srcdir/include" -o "$work/$name.o" "$top_srcdir/man/examples/$name.cu" 2>&1)"
	else
		skip "$name.cu compiles" "there is no nvcc"
	fi
done
echo "1..$count"

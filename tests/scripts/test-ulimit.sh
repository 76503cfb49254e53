#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# The tools with standard descriptors closed, and under limits of the shell.
set -u

. "$top_srcdir/tests/support/tap.sh"
trace=$top_srcdir/tests/traces/pipeline_streams.trace.gz
VPMM_BACKEND=host
export VPMM_BACKEND

# refused SENTENCE: complains unless the tool that has just run says so, and failed with this status
refused()
{
	status=$?
	[ $status -eq 2 ] || echo "exit status $status, expected 2"
	says err "$1"
}

printf '10 a 1 3000000 0\n20 f 1 3000000 0\n' >"$work/one.trace"

for command in "vpmm-info" "vpmm-info --json" "vpmm-info --help" "vpmm-info --version" "vpmm-replay $work/one.trace" \
		"vpmm-replay --json $work/one.trace" "vpmm-replay --help" "vpmm-replay --version" \
		"vpmm-bench --json --quick grow" "vpmm-bench --help" "vpmm-bench --version"; do
	verdict "${command%% /*}: standard output is closed" "$(
		$command >&- 2>"$work/err"; refused "${command%% *}: standard output is closed")"
done
verdict "nothing but standard input is open" "$(vpmm-replay --json "$work/one.trace" >&- 2>&-
	[ $? -eq 2 ] || echo "expected exit status 2")"

# Messages are lost then, results are not.
verdict "standard error is closed" "$(
	VPMM_LOG=debug vpmm-replay --json --verify "$trace" >"$work/out" 2>&-
	[ $? -eq 0 ] || echo "expected exit status 0"
	says out '"errors": 0')"
verdict "standard input is closed" "$(vpmm-replay "$work/one.trace" <&- >"$work/out" 2>"$work/err" || cat "$work/err"
	says out "No errors")"
verdict "standard input is closed, and to be read" "$(
	vpmm-replay - <&- >"$work/out" 2>"$work/err"; refused "vpmm-replay: standard input: ")"

# sizeless COMMAND...: where no file may have a byte, with its output in one, and what it says in a pipe
sizeless()
{
	(
		ulimit -f 0
		"$@" 2>&1 >"$work/out"
		echo "exit status $?"
	) | cat >"$work/err"
}
for command in "vpmm-info" "vpmm-info --json" "vpmm-info --version" "vpmm-replay --version" "vpmm-bench --version"; do
	# ThreadSanitizer writes a file of its own before main().
	case ${SANITIZE_CFLAGS:-} in
	*=thread*)
		count=$((count + 1))
		echo "ok $count - $command: a file has its largest size # SKIP ThreadSanitizer needs a file"
		continue
	esac
	verdict "$command: a file has its largest size" "$(sizeless $command
		says err "${command%% *}: writing "; says err "failed: File too large"; says err "exit status 2")"
done

# The memory of the host backend is a file, too.
verdict "memory has the largest size of a file" "$(
	(
		ulimit -f 2048
		vpmm-replay "$work/one.trace" 2>&1
		echo "exit status $?"
	) | cat >"$work/out"
	says out "file size limit, RLIMIT_FSIZE, of "; says out "exit status 1")"
echo "1..$count"

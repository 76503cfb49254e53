#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# vpmm-run, as a user meets it: options, how programs are started and end, and the tables of programs that are known.
set -u

object=lib/.libs/libvpmm-preload.so
if [ ! -e "$object" ]; then
	echo "1..0 # SKIP built without a shared object"
	exit 0
fi

# The runtime of AddressSanitizer has to come first, and would find leaks in other people's programs.
before=
case ${SANITIZE_CFLAGS-} in
*thread*)
	echo "1..0 # SKIP ThreadSanitizer cannot be preloaded into programs that were built without it"
	exit 0
	;;
*address*)
	before=$($CC -print-file-name=libasan.so)
	ASAN_OPTIONS=detect_leaks=0
	export ASAN_OPTIONS
	;;
esac
[ -z "$before" ] || { LD_PRELOAD=$before; export LD_PRELOAD; }

. "$top_srcdir/tests/support/tap.sh"
traces=$top_srcdir/tests/traces
program=tests/preload/run-program
mkdir "$work/tmp" "$work/other"
TMPDIR=$work/tmp
export TMPDIR

# From a directory with a space in its name the object has to be named; relative to where tests run, it has none.
here=$(pwd)
space=
case $here in
*' '*)
	space=yes
	VPMM_PRELOAD_OBJECT=$object
	export VPMM_PRELOAD_OBJECT
	;;
esac

# vrun STATUS ARGUMENTS: runs it, and complains if it does not exit with this status, or leaves anything behind
vrun()
{
	expected=$1
	shift
	run "$expected" vpmm-run "$@"
	ls "$work/tmp"
}

# refuses NAME SENTENCE ARGUMENTS
refuses()
{
	name=$1 sentence=$2
	shift 2
	verdict "$name" "$(vrun 2 "$@"; says err "vpmm-run: $sentence"; silent out)"
}

# row FILE LABEL COUNT: complains unless the line with the label has this number
row()
{
	grep -qE "^  $2 +$3( |\$)" "$work/$1" || {
		echo "expected in $1: $2 $3"
		cat "$work/$1"
	}
}

# tables FILE COUNT
tables()
{
	[ "$(grep -c ': served by' "$work/$1")" -eq "$2" ] || {
		echo "expected $2 tables in $1"
		cat "$work/$1"
	}
}

# Options
verdict "--help names every option" "$(vrun 0 --help
	for option in monitor report trace limit budget version help; do says out "--$option"; done; silent err)"
verdict "--version" "$(vrun 0 --version; says out "vpmm-run "; silent err)"
for option in monitor help version; do
	refuses "a value of --$option" "--$option takes no value" --$option=1 ls
done
refuses "no program" "no program given"
refuses "no program behind --" "no program given" --
refuses "unknown option" "Unknown option --fast" --fast ls
refuses "bad limit" '--limit: "1MB" is no number of bytes' --limit=1MB ls
refuses "bad budget" '--budget: a b:1G: expected NAME' "--budget=a b:1G" ls
refuses "bad size of a budget" '--budget: a:1X: expected a number of bytes' --budget=a:1X ls
verdict "a budget in a folder with letters that the locale does not have" "$(LC_ALL=C; export LC_ALL
	vrun 0 --budget="/$(printf '\303\274')/b:1G" true)"
refuses "a budget with --monitor" '--budget: not with --monitor' --budget=a:1G --monitor ls
refuses "no limit" '--limit: expected at least one byte' --limit=0 ls
refuses "report of what is not served" '--report: not with --monitor' --monitor --report ls
refuses "compressed trace of what is not served" '--trace: x.gz: with --monitor' --monitor --trace=x.gz ls
refuses "bad name of a trace" '--trace: x%d: behind a percent sign' --trace=x%d ls
mkfifo "$work/pipe"
refuses "a pipe for the trace of what is not served" "--trace: $work/pipe is no regular file" \
	--monitor --trace="$work/pipe" "$program" plain=1x1
verdict "the pipe is still there" "$([ -p "$work/pipe" ] || ls -l "$work/pipe")"
verdict "nor does a program replace one" "$(
	vrun 0 --monitor --trace="$work/later" sh -c '"$0" plain=1x1; mkfifo "$1"' "$program" "$work/later"
	[ -p "$work/later" ] || ls -l "$work/later"
	run 0 vpmm-replay --backend=host "$work/later".[1-9]*)"
verdict "without vpmm-run a pipe can be one" "$(
	timeout 20 cat "$work/pipe" >"$work/piped" &
	LD_PRELOAD=${LD_PRELOAD:+$LD_PRELOAD:}$object VPMM_PRELOAD_MONITOR=1 VPMM_TRACE=$work/pipe \
		timeout 20 "$program" plain=3x1 || echo "status $?"
	wait; run 0 vpmm-replay --backend=host --json "$work/piped"; says out '"operations": 3')"
verdict "what cannot be recorded any more is said" "$(
	vrun 0 --monitor sh -c 'ulimit -f 8; exec "$0" async=1000x1 free async=1000x1 free' "$program"
	says err "libvpmm-preload: VPMM_PRELOAD_TRACE=$work/tmp/"; says err "nothing more is recorded"; tables err 1
	[ "$(grep -c 'nothing more' "$work/err")" -eq 1 ] || cat "$work/err")"
refuses "trace without a name" '--trace: expected the name' --trace= ls
refuses "no folder for the trace" "--trace: $work/none: No such file" --trace="$work/none/x" ls
long=$(printf '%0260d' 0)
refuses "a name for the trace that no file can have" "--trace: $work/$long: File name too long" --trace="$work/$long" ls
long=$(printf '%0250d' 0)
refuses "one that none can have with a process id behind it" "--trace: $work/$long.2147483647: File name too long" \
	--monitor --trace="$work/$long" ls
verdict "without one it can" "$(vrun 0 --trace="$work/$long" true)"
refuses "a folder for the trace" "--trace: $work/other: Is a directory" --trace="$work/other" ls
if [ "$(id -u)" -ne 0 ]; then
	: >"$work/barred" && chmod a-w "$work/barred"
	refuses "a trace that cannot be written" "--trace: $work/barred: Permission denied" --trace="$work/barred" ls
else
	skip "a trace that cannot be written" "root can write it"
fi
refuses "no folder for the report" "--report: $work/none/x: No such file" --report="$work/none/x" ls
verdict "bad setting" "$(VPMM_OVERHEAD=x; export VPMM_OVERHEAD; vrun 2 ls
	says err "vpmm-run: vpmm_opts_from_env: VPMM_OVERHEAD=x"; silent out)"
verdict "a setting that only the replay has" "$(
	for bad in VPMM_HOST_CAPACITY=zz VPMM_HOST_MAPPINGS=0 VPMM_PAGE_SIZE=1000; do
		export "$bad"
		vrun 2 --monitor "$program" plain=1x1 say=done; says err "vpmm-run: "; says err "${bad%%=*}"; silent out
		unset "${bad%%=*}"
	done
	VPMM_HOST_CAPACITY=zz; export VPMM_HOST_CAPACITY; vrun 0 --limit=1G sh -c "echo done"; says out done)"

# What the program is given
verdict "options of the program are left to it" "$(vrun 0 sh -c 'echo "$0 $@"' --monitor --report -x --
	says out "--monitor --report -x --"; silent err)"
verdict "-- ends the options" "$(vrun 0 -- "$program" say=hello; says out hello; silent err
	run 127 vpmm-run -- -x; says err "vpmm-run: -x: No such file or directory"
	run 0 vpmm-run printf %s, -- -x; says out "--,-x,")"
verdict "--report takes no argument of its own" "$(vrun 0 --report "$program" say=hello; says out hello
	says err "served nothing")"
verdict "--budget" "$(vrun 0 --budget=vpmm-test-run:3G "$program" env=VPMM_BUDGET; says out vpmm-test-run:3G)"
verdict "--limit" "$(vrun 0 --limit=3G "$program" env=VPMM_LIMIT; says out 3221225472)"
verdict "--trace" "$(ln -s "$here/$object" "$work/object.so"; [ -z "$space" ] || VPMM_PRELOAD_OBJECT=$work/object.so
	cd "$work" || exit; vrun 0 --trace=a%p sh -c 'echo $VPMM_TRACE'; says out "$work/a%p")"
verdict "what is a value of another option" "$(cd "$work" || exit; [ -z "$space" ] || VPMM_PRELOAD_OBJECT=$work/object.so
	vrun 0 --trace --monitor=1 sh -c 'echo "$VPMM_TRACE"'; says out "$work/--monitor=1"
	vrun 0 --limit=1G sh -c 'echo "$@"' sh --monitor=1; says out "--monitor=1")"
verdict "the object comes behind what is there" "$(LD_PRELOAD=${before:+$before:}tests/preload/.libs/second.so
	export LD_PRELOAD
	for option in --limit=1G --report --monitor; do
		vrun 0 $option "$program" env=LD_PRELOAD
		grep -qE "^${before:+[^:]*:}tests/preload/.libs/second.so:[^:]*libvpmm-preload.so\$" "$work/out" ||
			cat "$work/out"
	done)"
closed()
{
	for option in --limit=1G --report; do
		vrun 0 $option sh -c 'ls /proc/$$/fd' <&-
		! grep -qx 0 "$work/out" || echo "$option: descriptor 0 is open"
	done
}
verdict "what was closed is closed" "$(closed)"
verdict "what was ignored is ignored" "$(trap '' HUP; for option in --limit=1G --report --monitor; do
		vrun 0 $option sh -c 'kill -s HUP $$; echo alive'; says out alive
	done)"
verdict "and nothing else" "$(grep '^SigIgn' /proc/self/status >"$work/wanted"
	for option in --limit=1G --report --monitor; do
		vrun 0 $option grep '^Sig[BI][lg][kn]' /proc/self/status
		grep -qx "$(cat "$work/wanted")" "$work/out" && grep -q 'SigBlk:.0*$' "$work/out" || cat "$work/out"
	done)"

# How it ends
for option in --limit=1G --report --monitor; do
	verdict "exit status, $option" "$(vrun 3 $option "$program" plain=1x1 exit=3; vrun 0 $option "$program"
		vrun 255 $option "$program" exit=255)"
	verdict "signals that end it, $option" "$(vrun 137 $option "$program" plain=1x1 kill=9
		vrun 143 $option "$program" kill=15
		sh -c 'vpmm-run $0 $1 kill=9; :' $option "$program" >"$work/out" 2>"$work/err"; says err Killed)"
	verdict "not found, $option" "$(vrun 127 $option none-of-this-name
		says err "vpmm-run: none-of-this-name: No such file"; vrun 127 $option "$work/none")"
	verdict "not executable, $option" "$(echo true >"$work/plain"; vrun 126 $option "$work/plain"
		says err "vpmm-run: $work/plain: Permission denied"; vrun 126 $option "$work"
		says err "vpmm-run: $work: Is a directory"
		PATH=$work:$PATH; vrun 126 $option plain; says err "vpmm-run: plain: Permission denied")"
	verdict "a script without a first line, $option" "$(printf 'echo "$1"\nexit 4\n' >"$work/script"
		chmod +x "$work/script"; vrun 4 $option "$work/script" hello; says out hello)"
done

# What cannot work
verdict "no object" "$(VPMM_PRELOAD_OBJECT=tests/none.so; export VPMM_PRELOAD_OBJECT; vrun 2 ls
	says err "vpmm-run: the object to preload, "; says err "tests/none.so: No such file"; silent out)"
mkdir "$work/started" && ln -s "$here/$object" "$work/started/object.so"
from_folder="an object of the folder that vpmm-run is started in"
case $work in
*' '*) skip "$from_folder" "LD_PRELOAD cannot have the folder's name, which has a space: $work" ;;
*)
	verdict "$from_folder" "$(
		PATH=$here/tools:$PATH; cd "$work/started" || exit
		for named in object.so ./object.so; do
			VPMM_PRELOAD_OBJECT=$named; export VPMM_PRELOAD_OBJECT
			vrun 0 --limit=1G sh -c 'cd /; grep -o libvpmm-preload.so /proc/self/maps'
			says out libvpmm-preload.so; silent err
		done)"
	;;
esac
if [ -x "$here/tools/.libs/vpmm-run" ]; then
	verdict "without PATH a program of the current folder is not found" "$(
		printf '#!/bin/sh\n' >"$work/started/here" && chmod +x "$work/started/here" && cd "$work/started" || exit
		LD_LIBRARY_PATH=$here/lib/.libs; VPMM_PRELOAD_OBJECT=./object.so
		export LD_LIBRARY_PATH VPMM_PRELOAD_OBJECT
		run 127 env -u PATH "$here/tools/.libs/vpmm-run" here
		run 0 env -u PATH "$here/tools/.libs/vpmm-run" true)"
fi
verdict "an object with a space in its name" "$(VPMM_PRELOAD_OBJECT="$work/a b.so"; export VPMM_PRELOAD_OBJECT
	vrun 2 ls; says err "vpmm-run: LD_PRELOAD cannot have a name with a space"; silent out)"
if [ -n "$space" ]; then
	verdict "it says so from a directory with a space" "$(unset VPMM_PRELOAD_OBJECT; vrun 2 ls
		says err "vpmm-run: LD_PRELOAD cannot have a name with a space"; silent out)"
fi
echo 'void _start(void) { __builtin_trap(); }' >"$work/static.c"
if $CC -static -nostdlib -o "$work/static" "$work/static.c" 2>/dev/null; then
	refuses "a program that is linked statically" "$work/static is linked statically" "$work/static"
	case $work in
	*' '*) ;;
	*)
		printf '#! %s -x\n' "$work/static" >"$work/interpreted"
		chmod +x "$work/interpreted"
		refuses "a script of one" "$work/static is linked statically" "$work/interpreted"
		;;
	esac
else
	skip "a program that is linked statically" "none can be linked"
fi
cp /bin/sh "$work/set-id"
if chown 12345:12345 "$work/set-id" 2>/dev/null && chmod 4755 "$work/set-id"; then
	refuses "a set-user-ID program" "$work/set-id is a set-user-ID program" "$work/set-id" -c 'exit 0'
	chmod 2755 "$work/set-id"
	refuses "a set-group-ID program" "$work/set-id is a set-group-ID program" "$work/set-id" -c 'exit 0'
else
	skip "a set-user-ID program" "only root can make one"
fi

# --monitor
verdict "what a program allocates" "$(vrun 0 --monitor "$program" plain=64x4 odd async=5x8 say=done; says out done
	tables err 1; says err "run-program, process "; says err "device 0: served by the"
	row err allocations 69; row err "  by cudaMalloc" 64; row err "  by cudaMallocAsync" 5; row err frees 32
	says err "256 MiB in all, the largest 4.00 MiB"; says err "40.0 MiB in all, the largest 8.00 MiB"
	says err "168 MiB not freed"
	row err "requested by the program" "256 MiB"; row err "in pages of the driver" "256 MiB +1.000"
	row err "model: cudaMalloc" "256 MiB +1.000"
	row err libvpmm "256 MiB +1.000"; says err "as much as the pages in use"
	awk 'length > 75 { print "too wide: " $0 }' "$work/err")"
verdict "blocks that move to grow" "$(vrun 0 --monitor "$program" plain=1x2 move=5x2 use=3x2 async=1x4 move=2x4
	row err frees 10; row err "  copied to grow" "10 +84.0 MiB copied"
	row err "    used between" "3 +other work before the old was freed"
	awk 'length > 75 { print "too wide: " $0 }' "$work/err"
	vrun 0 --monitor "$program" plain=3x2 odd; row err "  copied to grow" 0; ! grep "used between" "$work/err")"
verdict "pages that small blocks are in" "$(vrun 0 --monitor "$program" plain=3x3
	row err "in pages of the driver" "12.0 MiB +1.333"; says err "2.00 MiB (16.7 %) less than the pages")"
verdict "calls of both kinds" "$(vrun 0 --monitor "$program" plain=3x3 async=1x1
	row err "model: cudaMalloc" "14.0 MiB +1.400"
	grep -E "model.*(Async|both)" "$work/err")"
verdict "a real program, and vpmm-replay says the same" "$(
	gzip -dc "$traces/pipeline_streams.trace.gz" >"$work/trace"
	for kind in plain async; do
		vrun 0 --monitor "$program" replay=$kind <"$work/trace"
		row err allocations 4,729; row err "requested by the program" "931 MiB"
		mv "$work/err" "$work/told"
		run 0 vpmm-replay --backend=host "$work/trace"
		row told libvpmm "$(sed -n 's/^trace .* \([0-9.]* MiB\)  *\([0-9.]*\)$/\1 +\2/p' "$work/out")"
		run 0 vpmm-replay --backend=host --allocator=malloc "$work/trace"
		row told "model: cudaMalloc( instead)?" \
			"$(sed -n 's/^trace .* \([0-9.]* MiB\)  *\([0-9.]*\)$/\1 +\2/p' "$work/out")"
	done)"
verdict "devices and resets have tables of their own" "$(VPMM_HOST_DEVICES=2; export VPMM_HOST_DEVICES
	vrun 0 --monitor "$program" plain=1x2 reset plain=2x2 device=1 async=3x2; tables err 3
	says err "device 1: served"; says err reset; row err allocations 3; row err allocations 2)"
verdict "processes have tables of their own" "$(
	vrun 0 --monitor sh -c '"$0" plain=1x2 & "$0" plain=2x2; wait; ls / >&2' "$program"; tables err 2
	says err " of sh, device 0"; row err allocations 1; row err allocations 2
	[ "$(grep -c ratio "$work/err")" -eq 3 ] || cat "$work/err")"
verdict "what a process executes has a table of its own" "$(
	vrun 0 --monitor "$program" plain=1x2 exec plain=2x2 exec plain=3x2; tables err 3
	for allocations in 1 2 3; do row err allocations $allocations; done
	mkdir "$work/exec"
	vrun 0 --monitor --trace="$work/exec/a" "$program" plain=1x2 exec plain=2x2; tables err 2
	[ "$(ls "$work/exec" | wc -l)" -eq 2 ] || ls "$work/exec"
	vrun 0 --monitor --trace="$work/exec/b" "$program" plain=1x2
	vrun 0 --monitor --trace="$work/exec/b" "$program" plain=2x2; tables err 1; row err allocations 2
	[ -e "$work/exec/b" ] && [ "$(ls "$work/exec" | wc -l)" -eq 3 ] || ls "$work/exec")"
verdict "a program that uses libvpmm, too" "$(
	for order in "own=3x8 plain=5x4" "plain=5x4 own=3x8" "plain=2x4 own=3x8 plain=3x4"; do
		vrun 0 --monitor "$program" $order; tables err 1; row err allocations 5
		row err "requested by the program" "20.0 MiB"; ! grep "no newline\|vpmm-run: /" "$work/err"
	done
	vrun 0 --monitor "$program" own=3x8; tables err 0; says err "no allocation of device memory was recorded")"
verdict "VPMM_TRACE is not for the program" "$(
	vrun 0 --monitor "$program" env=VPMM_TRACE; says out "(none)"
	vrun 0 --monitor --trace="$work/theirs" "$program" env=VPMM_TRACE; says out "(none)"
	VPMM_TRACE=$work/theirs vrun 0 --monitor "$program" env=VPMM_TRACE; says out "(none)")"
verdict "and none is no file" "$(mkdir "$work/nothing" && cd "$work/nothing" || exit
	[ -z "$space" ] || VPMM_PRELOAD_OBJECT=$work/object.so
	VPMM_TRACE=none vrun 0 --monitor "$here/$program" plain=1x2; tables err 1
	VPMM_PRELOAD_REPORT=none vrun 0 "$here/$program" plain=1x2; ls)"
verdict "a program that allocates nothing" "$(vrun 0 --monitor ls /
	says err "vpmm-run: ls: no allocation of device memory was recorded"; tables err 0)"
verdict "a program that is killed" "$(vrun 137 --monitor "$program" plain=500x1 kill=9; tables err 1
	row err allocations 500)"
verdict "tables that nobody reads" "$(
	{ vpmm-run --monitor "$program" plain=1x2 exit=5; echo $? >"$work/status"; } 2>&1 >/dev/null | :
	ls "$work/tmp"; grep -vx 5 "$work/status")"
verdict "a limit" "$(vrun 0 --monitor --limit=100M "$program" plain=60x2
	says err "With libvpmm, 10 requests would have failed by VPMM_LIMIT"
	vrun 0 --monitor --limit=100M "$program" plain=51x2
	says err "With libvpmm, 1 request would have failed by VPMM_LIMIT")"
verdict "more memory than the model's device has by itself" "$(export VPMM_HOST_CAPACITY=200G
	vrun 0 --monitor sh -c 'VPMM_HOST_CAPACITY=200G "$0" plain=100x1024' "$program"
	row err libvpmm "100 GiB +1.000"; unset VPMM_HOST_CAPACITY
	vrun 0 --monitor sh -c 'VPMM_HOST_CAPACITY=200G "$0" plain=100x1024' "$program"
	row err libvpmm "100 GiB +1.000")"
verdict "a device that is too small" "$(export VPMM_HOST_CAPACITY=100M
	vrun 0 --monitor sh -c 'VPMM_HOST_CAPACITY=1G "$0" plain=60x2' "$program"
	row err "model: cudaMalloc" -; says err "With libvpmm, 10 requests would have failed; with --trace")"
verdict "--trace keeps the trace" "$(vrun 0 --monitor --trace="$work/kept" "$program" plain=3x2 odd; tables err 1
	run 0 vpmm-replay --backend=host --json "$work/kept"; says out '"operations": 5')"
verdict "so does the variable, for each process" "$(VPMM_TRACE=$work/other/%p.x; export VPMM_TRACE
	echo nonsense >"$work/other/1.x"; echo nonsense >"$work/other/a.x"
	vrun 0 --monitor sh -c '"$0" plain=1x2; "$0" plain=2x2' "$program"; tables err 2
	! grep other/1.x "$work/err"
	for trace in "$work/other"/*.x; do
		case $trace in */[1a].x) ;; *) run 0 vpmm-replay --backend=host "$trace" ;; esac
	done)"
verdict "each process has a trace of its own" "$(mkdir "$work/own"
	for name in a '%%b'; do
		vrun 0 --monitor --trace="$work/own/$name" sh -c '"$0" plain=1x2; "$0" plain=2x2' "$program"
		tables err 2
		for trace in "$work/own/${name#%}".[1-9]*; do
			run 0 vpmm-replay --backend=host "$trace"
		done
		[ ! -e "$work/own/${name#%}" ] || echo "there is one of all"
	done
	[ "$(ls "$work/own" | wc -l)" -eq 4 ] || ls "$work/own")"
verdict "a folder for temporary files with odd letters" "$(mkdir "$work/a %p b"; TMPDIR="$work/a %p b"; export TMPDIR
	vrun 0 --monitor "$program" plain=1x2; tables err 1; ls "$TMPDIR")"
verdict "a relative one, of a program that goes elsewhere" "$(
	TMPDIR=$(realpath --relative-to=. "$work/tmp"); export TMPDIR
	[ -z "$space" ] || VPMM_PRELOAD_OBJECT=$work/object.so
	for option in --monitor --report; do
		vrun 0 $option sh -c 'cd / && "$0" plain=1x2' "$here/$program"; tables err 1
	done)"
verdict "no folder for temporary files" "$(TMPDIR=$work/none; export TMPDIR; run 2 vpmm-run --monitor ls
	says err "vpmm-run: a folder for what is recorded: "; silent out)"

# --report
verdict "what libvpmm did" "$(vrun 0 --report "$program" plain=64x4 odd async=5x8 say=done; says out done; tables err 1
	says err "run-program, process "; says err "device 0: served by libvpmm"
	row err allocations 69; row err frees 32; row err "requested by the program" "256 MiB"
	row err "taken from the device" "256 MiB +1.000"
	awk 'length > 75 { print "too wide: " $0 }' "$work/err")"
verdict "it adds up, to what the pool takes without the object" "$(vrun 0 --report "$program" replay=async <"$work/trace"
	value() { sed -n "s/^ *$1  *\([0-9,]*\).*/\1/p" "$work/err" | tr -d ,; }
	[ "$(value allocations)" -eq 4729 ] && [ "$(value frees)" -eq 4726 ] &&
		[ $(($(value reused) + $(value remapped) + $(value grown))) -ge 4729 ] || cat "$work/err"
	mv "$work/err" "$work/told"
	run 0 vpmm-replay --backend=host "$work/trace"
	row told "taken from the device" "$(sed -n 's/^trace .* \([0-9.]* MiB\)  *\([0-9.]*\)$/\1 +\2/p' "$work/out")")"
verdict "who has not freed what, with VPMM_STACKS" "$(VPMM_STACKS=1; export VPMM_STACKS
	vrun 0 --report "$program" plain=64x4 say=done; says err "not freed: by "; says err " blocks, at most "; tables err 1
	says err "run-program")"
verdict "in a file" "$(vrun 0 --report="$work/report" "$program" plain=1x2; silent err; tables report 1)"
verdict "the next one takes its place" "$(vrun 0 --report="$work/report" "$program" plain=1x2; tables report 1)"
verdict "a program that cannot be started leaves it" "$(vrun 127 --report="$work/report" "$work/none"
	: >"$work/text"; vrun 126 --report="$work/report" "$work/text"; tables report 1)"
verdict "and makes none" "$(vrun 127 --report="$work/never" "$work/none"; vrun 126 --report="$work/never" "$work/text"
	[ ! -e "$work/never" ] || ls -l "$work/never")"
verdict "of each process and pool" "$(
	vrun 0 --report sh -c '"$0" plain=1x2 reset plain=2x2; "$0" plain=3x2; ls /' "$program"; tables err 3
	says err reset; row err allocations 1; row err allocations 2; row err allocations 3)"
verdict "with a limit" "$(vrun 1 --report --limit=100M "$program" plain=60x2; says err "cuMemAlloc: error 2"
	row err allocations 50; row err "taken from the device" "100 MiB +1.000")"
verdict "whatever the environment says" "$(VPMM_PRELOAD_MONITOR=1; export VPMM_PRELOAD_MONITOR
	vrun 0 --report "$program" plain=1x2; tables err 1)"
verdict "--trace of a served program" "$(vrun 0 --report --trace="$work/served.gz" "$program" plain=3x2; tables err 1
	run 0 vpmm-replay --backend=host --json "$work/served.gz"; says out '"mallocs": 3')"

# Signals
# meanwhile ACTION ARGUMENTS...: runs it in the background, and does the action once it has said something, with its
# process id as an argument. Its standard input is descriptor 3. The status is that of vpmm-run.
meanwhile()
{
	action=$1
	shift
	rm -f "$work/input"
	mkfifo "$work/input"
	: >"$work/out"
	env --default-signal=HUP,INT,QUIT vpmm-run "$@" <"$work/input" >"$work/out" 2>"$work/err" &
	running=$!
	exec 3>"$work/input"
	while ! [ -s "$work/out" ] && kill -0 $running; do
		sleep 0.05
	done
	$action $running
	wait $running
	status=$?
	exec 3>&-
}

send()
{
	kill -s "$signal" "$1"
}

# Just before the program begins, a signal comes that vpmm-run handles once the program has ended; or the terminal sends
# one just before there is its process.
cat >"$work/early.c" <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
int execvp(const char *path, char *const argv[])
{
	if (getenv("EARLY_EXEC"))
		raise(SIGTERM);
	return execve(path, argv, environ);
}
pid_t fork(void)
{
	siginfo_t info = { .si_signo = SIGTERM, .si_code = SI_KERNEL };

	if (getenv("EARLY_FORK"))
		syscall(SYS_rt_sigqueueinfo, getpid(), SIGTERM, &info);
	return ((pid_t (*)(void))dlsym(RTLD_NEXT, "fork"))();
}
C
if $CC -shared -fPIC -o "$work/early.so" "$work/early.c" -ldl 2>"$work/err"; then
	verdict "one that comes before the program has begun" "$(cd "$work" || exit
		LD_PRELOAD=${before:+$before:}./early.so; VPMM_PRELOAD_OBJECT=./object.so
		EARLY_EXEC=1; export LD_PRELOAD VPMM_PRELOAD_OBJECT EARLY_EXEC
		for option in --report --monitor; do
			vrun 143 $option "$here/$program" say=begun; silent out
		done)"
	verdict "one that comes before there is its process" "$(LD_LIBRARY_PATH=$here/lib/.libs; export LD_LIBRARY_PATH
		cd "$work" || exit
		run 143 env EARLY_FORK=1 LD_PRELOAD="${before:+$before:}./early.so" VPMM_PRELOAD_OBJECT=./object.so \
			"$here/tools/.libs/vpmm-run" --report sleep 20; silent out; ls "$work/tmp")"
else
	verdict "one that comes before the program has begun" "$(cat "$work/err")"
fi

passes()
{
	for option in --report --monitor; do
		for signal in HUP INT QUIT TERM USR2; do
			meanwhile send $option "$program" signal plain=1x2 exit=5
			[ $status -eq 5 ] || echo "$option, $signal: exit status $status"
			[ "$(wc -l <"$work/out")" -eq 2 ] || cat "$work/out"
			tables err 1
		done
	done
	signal=USR1
	meanwhile send --report "$program" signal plain=1x2 exit=5
	[ $status -eq 5 ] || echo "$option, $signal: exit status $status"
	says out "User defined signal 1"
}

ends()
{
	for option in --report --monitor; do
		for signal in INT TERM; do
			meanwhile send $option "$program" plain=1x2 second plain=1x2 say=ready line
			[ "$(kill -l $status)" = $signal ] || echo "$option: exit status $status after $signal"
			ls "$work/tmp"
		done
	done
	row err allocations "[12]"
}

# Asks, and waits until the table is there.
ask()
{
	for told in 1 2; do
		kill -s USR1 "$1"
		while [ "$(grep -c '^  ratio' "$work/err")" -lt $told ] && kill -0 "$1"; do
			sleep 0.05
		done
	done
	cp "$work/err" "$work/told"
	exec 3>&-
}

asked()
{
	meanwhile ask --monitor "$program" plain=20x4 second plain=1x1 say=ready line plain=7x4
	[ $status -eq 0 ] || echo "exit status $status"
	tables told 2
	row told allocations 21
	tables err 3
	row err allocations 28
	ls "$work/tmp"
}

# Until vpmm-run has ended, and so also while it makes its tables.
asked_often()
{
	: >"$work/out"
	vpmm-run --monitor "$program" say=ready replay=async <"$work/trace" >"$work/out" 2>"$work/err" &
	running=$!
	occurs 1 ready
	for _ in 1 2 3 4 5 6 7 8; do
		kill -s USR1 $running 2>/dev/null
		sleep 0.05
	done
	wait $running
	status=$?
	[ $status -eq 0 ] || echo "exit status $status"
	row err allocations 4,729
	ls "$work/tmp"
}

# Signals once the program has ended, while the tables are made: what is to end vpmm-run does so, and what was meant for
# the program does nothing.
late()
{
	many=
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		many="$many $lot $lot $lot $lot $lot $lot $lot $lot $lot $lot"
	done
	for signal in HUP TERM USR2 USR1; do
		: >"$work/out"
		env --default-signal=HUP vpmm-run --monitor "$program" $many say=ended >"$work/out" 2>"$work/err" &
		running=$!
		occurs 1 ended
		while env -u LD_PRELOAD pgrep -P $running >/dev/null; do
			sleep 0.02
		done
		kill -s $signal $running || echo "the tables were there before $signal"
		wait $running
		status=$?
		case $signal in
		USR*) [ $status -eq 0 ] || echo "exit status $status after $signal"; row err allocations 100,000 ;;
		*) [ "$(kill -l $status)" = $signal ] || echo "exit status $status after $signal" ;;
		esac
		ls "$work/tmp"
	done
}

asked_early()
{
	meanwhile ask_once --monitor "$program" say=ready line plain=7x4
	says told "no allocation of device memory was recorded"
	tables err 1
}

ask_once()
{
	kill -s USR1 "$1"
	while ! [ -s "$work/err" ] && kill -0 "$1"; do
		sleep 0.05
	done
	cp "$work/err" "$work/told"
	exec 3>&-
}

# occurs NUMBER TEXT: waits until the terminal has it so often, or the program has ended
occurs()
{
	while [ "$(grep -c "$2" "$work/out")" -lt "$1" ] && kill -0 $running 2>/dev/null; do
		sleep 0.05
	done
}

# What a terminal sends reaches the program by itself. Descriptor 3 is the terminal's keyboard; vpmm-run stands still
# until the program has seen the key.
typed()
{
	mkfifo "$work/keys"
	: >"$work/out"
	# Some shells die of the key, unless they have a trap.
	env --default-signal=INT,QUIT timeout --foreground 60 script -qec \
		"trap : INT; vpmm-run --report '$program' parent signal signal exit=5; exit \$?" \
		/dev/null <"$work/keys" >"$work/out" &
	running=$!
	exec 3>"$work/keys"
	occurs 1 waiting
	parent=$(sed -n 's/^parent \([0-9]*\).*/\1/p' "$work/out")
	kill -s STOP "$parent"
	printf '\003' >&3
	occurs 2 waiting
	kill -s CONT "$parent"
	sleep 0.3
	[ "$(grep -c Interrupt "$work/out")" -eq 1 ] || cat "$work/out"
	printf '\003' >&3
	wait $running
	status=$?
	[ $status -eq 5 ] || echo "exit status $status"
	exec 3>&-
}

if env --default-signal=INT true 2>/dev/null; then
	verdict "signals are passed on" "$(passes)"
	verdict "a program that they end" "$(ends)"
	verdict "SIGUSR1 asks what there is so far" "$(asked)"
	verdict "before anything was allocated, too" "$(asked_early)"
	if command -v pgrep >/dev/null; then
		verdict "signals while the tables are made" "$(lot="async=1000x1 free"; late)"
	else
		skip "signals while the tables are made" "there is no pgrep(1)"
	fi
	verdict "and while it makes the tables" "$(asked_often)"
	if command -v script >/dev/null && script -qec true /dev/null </dev/null >/dev/null 2>&1; then
		verdict "a key of the terminal counts once" "$(typed)"
	else
		skip "a key of the terminal counts once" "there is no script(1)"
	fi
else
	skip "signals" "env has no --default-signal"
fi
echo "1..$count"

#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# vpmm-top: pools of several processes, what becomes of one that is killed, and what programs read.
set -u

. "$top_srcdir/tests/support/tap.sh"
hold=$top_builddir/tests/support/hold-pools
VPMM_BACKEND=host VPMM_VA_SIZE=1G
export VPMM_BACKEND VPMM_VA_SIZE
ls /dev/shm >"$work/shm.before" 2>/dev/null

# start NAME VARIABLE=VALUE MIB...: a process with pools of so many MiB, whose number goes to $pid
start()
{
	name=$1 setting=$2
	shift 2
	mkfifo "$work/$name.in"
	env "$setting" "$hold" "$@" <"$work/$name.in" >"$work/$name.out" &
	# Until it is closed the process goes on.
	case $name in
	one) exec 3>"$work/one.in" ;;
	two) exec 4>"$work/two.in" ;;
	three) exec 5>"$work/three.in" ;;
	none) exec 6>"$work/none.in" ;;
	tagged) exec 7>"$work/tagged.in" ;;
	strange) exec 8>"$work/strange.in" ;;
	other) exec 9>"$work/other.in" ;;
	large) exec 3>"$work/large.in" ;;
	odd) exec 4>"$work/odd.in" ;;
	*) exec 4>"$work/small.in" ;;
	esac
	tries=0
	while [ ! -s "$work/$name.out" ] && [ $tries -lt 200 ]; do
		sleep 0.05
		tries=$((tries + 1))
	done
	pid=$(cat "$work/$name.out")
}

# holds PID HALVES [TEXT]: vpmm-top says within seconds that a process has a pool with so many halves of a MiB, and TEXT
holds()
{
	tries=0
	while ! vpmm-top --json | grep "\"pid\": $1, .*\"requested\": $(($2 << 19)), .*${3-}" >/dev/null; do
		tries=$((tries + 1))
		[ $tries -lt 50 ] || { echo "no pool of $2 halves of a MiB of process $1"; vpmm-top --json; return; }
		sleep 0.05
	done
}

start one VPMM_TOP=1 3
one=$pid
start two VPMM_TOP=on 7 11
two=$pid
start three VPMM_TOP=1 5
three=$pid
start none VPMM_TOP=0 9
none=$pid

verdict "three processes and their pools" "$(holds "$one" 6; holds "$two" 14; holds "$two" 22; holds "$three" 10)"
# Other programs of this machine may have pools, too.
for pid in $one $two $three $none; do
	vpmm-top --json | grep "\"pid\": $pid, "
done >"$work/rows"
verdict "only those that publish, and no forked child" "$([ "$(wc -l <"$work/rows")" -eq 4 ] || cat "$work/rows")"
verdict "the largest comes first" "$(vpmm-top --json | grep '"pool": ' | sed -n 's/.*"taken": \([0-9]*\).*/\1/p' >"$work/taken"
	sort -rnc "$work/taken" 2>&1)"
verdict "the table has them" "$(run 0 vpmm-top; for pid in $one $two $three; do says out "$pid hold-pools"; done
	[ "$(grep -cE "^ *($one|$two|$three|$none) hold-pools" "$work/out")" -eq 4 ] || cat "$work/out"; silent err)"
verdict "sorted by process" "$(run 0 vpmm-top --once --sort=pid
	[ "$(grep hold-pools "$work/out" | awk '{ print $1 }' | sort -nc 2>&1)" = "" ] || cat "$work/out")"

verdict "the table fits a terminal of 80 columns" "$(run 0 vpmm-top; awk 'length > 80' "$work/out")"
cat >"$work/lines.py" <<'END'
import fcntl, os, pty, signal, struct, sys, termios
columns = int(sys.argv[2])
pid, terminal = pty.fork()
if pid == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 5, columns, 0, 0))
    os.execvp("vpmm-top", ["vpmm-top", "--delay=60s"])
text = b""
try:
    while text.count(b"\n") < 4:
        text += os.read(terminal, 4096)
    signal.alarm(20)
    os.kill(pid, signal.SIGTERM)
    while True:
        text += os.read(terminal, 4096)
except OSError:
    pass
os.waitpid(pid, 0)
lines = text.replace(b"\r", b"").replace(b"\x1b[H\x1b[2J", b"").split(b"\n")
if len(lines) != 5 or sys.argv[1].encode() + b" hold-pools" not in text or max(map(len, lines)) > columns:
    sys.exit(repr(text))
END
if "${PYTHON:-python3}" -c 'import pty' 2>/dev/null; then
	verdict "a small terminal has the largest pools" "$(largest=$(vpmm-top --json | sed -n '1s/.*"pid": \([0-9]*\),.*/\1/p')
		for columns in 80 20; do "${PYTHON:-python3}" "$work/lines.py" "$largest" $columns 2>&1; done)"
else
	skip "a small terminal has the largest pools" "there is no Python"
fi

# well_formed FILE: the rules of the format: families with their samples together, names with their units, and the end.
well_formed()
{
	awk '
		/^# TYPE / { family = $3; type = $4; if (seen[family]++) print "twice: " $0; next }
		/^# UNIT / { if ($3 != family || family !~ $4 "$") print "unit: " $0; next }
		/^# HELP / { if ($3 != family) print "help: " $0; next }
		/^# EOF$/ { ended = NR; next }
		{
			name = $1; sub(/\{.*/, "", name)
			if (name != (type == "counter" ? family "_total" : family)) print "name: " $0
			line = $0; sub(/ [0-9.]+$/, "", line)
			if (had[line]++) print "twice: " $0
			if ($0 !~ /^[a-z_]+\{([a-z]+="([^"\\]|\\.)*",?)+\} [0-9]+(\.[0-9]+)?$/) print "sample: " $0
		}
		END { if (ended != NR) print "no end" }' "$work/$1"
}

verdict "OpenMetrics" "$(run 0 vpmm-top --openmetrics; silent err
	well_formed out
	says out "vpmm_requested_bytes{pid=\"$two\",pool=\"2\",device=\"0\",command=\"hold-pools\"} $((11 << 20))"
	says out "vpmm_mallocs_total{pid=\"$one\",pool=\"1\","
	grep -F "vpmm_limit_bytes{pid=\"$one\"" "$work/out")"

TAG='cache "kv"'
export TAG
start tagged VPMM_TOP=1 13
unset TAG
tagged=$pid
# What a call has under a tag is counted behind what it has in the pool.
verdict "tags" "$(holds "$tagged" 27 '"tags": {"cache'
	run 0 vpmm-top --json
	says out '"tags": {"cache \"kv\"": {"live": 524288, "requested": 524288, "blocks": 1, '
	sed -n 's/.*"taken": \([0-9]*\),.*"peak_taken": \([0-9]*\),.*"tags": .*/\1 \2/p' "$work/out" |
		awk '$1 > $2 { print $1 " bytes are taken, and at most " $2 " were" }'
	run 0 vpmm-top; says out '          cache "kv"'
	run 0 vpmm-top --openmetrics; says out ",command=\"hold-pools\",tag=\"cache \\\"kv\\\"\"} 524288")"

# A reader of JSON or of OpenMetrics refuses all of it if a name is no UTF-8, or comes twice. A table cuts long names.
TAG=$(printf 'a\377\na\376\nb\nxxxx%s' "$(printf '\303\244%.0s' 1 2 3 4 5 6 7 8 9 10 11 12 13 14)")
export TAG
start strange VPMM_TOP=1 15
unset TAG
verdict "tags that differ only in what is no text" "$(holds "$pid" 34 '"tags": {"a?'
	vpmm-top --json | grep "\"pid\": $pid, " | grep -o '"a?": \|"b": ' | tr -d '\n' >"$work/out"
	[ "$(cat "$work/out")" = '"a?": "b": ' ] || cat "$work/out"
	run 0 vpmm-top; iconv -f UTF-8 -t UTF-8 "$work/out" 2>&1 >/dev/null
	run 0 vpmm-top --openmetrics; well_formed out; iconv -f UTF-8 -t UTF-8 "$work/out" 2>&1 >/dev/null)"
exec 8>&-

kill -9 "$two"
sleep 0.3
verdict "a process that was killed is gone" "$(vpmm-top --json | grep "\"pid\": $two, "; holds "$one" 6; holds "$three" 10)"
exec 3>&- 4>&- 5>&- 6>&- 7>&-
wait
verdict "so are those that have ended" "$(for pid in $one $two $three; do vpmm-top --json | grep "\"pid\": $pid, "; done)"

# Of a budget vpmm-top shows all pools, those too that publish nothing.
XDG_RUNTIME_DIR=$work VPMM_BUDGET=shared:100M VPMM_BUDGET_FLOOR=20M
export XDG_RUNTIME_DIR VPMM_BUDGET VPMM_BUDGET_FLOOR
start large VPMM_TOP=0 41
large=$pid
start small VPMM_TOP=0 7
small=$pid
odd=$(printf 'else\033where\302\233\177')
mkdir "$work/$odd"
start other "XDG_RUNTIME_DIR=$work/$odd" 3
unset XDG_RUNTIME_DIR VPMM_BUDGET VPMM_BUDGET_FLOOR
# The budgets named "shared" of other programs are in other folders.
budget()
{
	vpmm-top --json | grep -F "\"path\": \"$work/vpmm/shared."
}
verdict "a budget" "$(budget >"$work/out"; says out '{"budget": "shared", '; says out "\"size\": $((100 << 20)), "
	says out "{\"0\": {\"pid\": $large, \"command\": \"hold-pools\", \"taken\": 4"
	says out "\"1\": {\"pid\": $small, "; says out "\"floor\": $((20 << 20)), \"weight\": 1}"
	[ "$(sed 's/.*"size"[^t]*"taken": \([0-9]*\).*/\1/' "$work/out")" = "$(grep -o '"taken": [0-9]*' "$work/out" |
		awk 'NR > 1 { sum += $2 } END { print sum }')" ] || cat "$work/out")"
verdict "its table" "$(run 0 vpmm-top; says out " of 100 MiB taken"
	grep -A 9 'budget shared: ' "$work/out" >"$work/err"
	for pid in $large $small; do grep -q "^ *$pid hold-pools .* 20.0 MiB$" "$work/err" || cat "$work/out"; done)"
verdict "its samples" "$(run 0 vpmm-top --openmetrics; well_formed out
	grep -q "^vpmm_budget_size_bytes{uuid=\"[0-9a-f]*\",budget=\"shared\",file=\"[0-9a-f:]*\"} $((100 << 20))$" \
		"$work/out" || cat "$work/out"
	says out ",slot=\"1\",pid=\"$small\",command=\"hold-pools\"} $((20 << 20))")"
verdict "two users' budgets of one name" "$(run 0 vpmm-top --openmetrics; well_formed out
	[ "$(grep -c '^vpmm_budget_size_bytes{.*,budget="shared",' "$work/out")" -ge 2 ] || cat "$work/out")"
verdict "a path with control characters" "$(vpmm-top --json >"$work/out"; says out "$work/else?where???/vpmm/shared."
	LC_ALL=C grep -n "$(printf '[\001-\010\013-\037\177\302]')" "$work/out")"
exec 9>&-
kill -9 "$large"
tries=0
while budget | grep "\"pid\": $large, " >/dev/null && [ $tries -lt 50 ]; do
	sleep 0.05
	tries=$((tries + 1))
done
verdict "what a process had that was killed is not taken" "$(budget >"$work/out"; says out "\"pid\": $small, "
	grep "\"pid\": $large, " "$work/out")"
exec 3>&- 4>&-
wait
verdict "a budget without pools is not shown" "$(budget)"

# A terminal would obey the name of another user's process.
COMMAND=$(printf 'a\nb\033[2J\302\233\177')
export COMMAND
start odd VPMM_TOP=1 17
unset COMMAND
verdict "a name with control characters" "$(holds "$pid" 34 '"tags"'
	run 0 vpmm-top; says out "$pid a?b?[2J??? "
	LC_ALL=C grep -n "$(printf '[\001-\010\013-\037\177\302]')" "$work/out"
	run 0 vpmm-top --openmetrics; well_formed out
	says out ",command=\"a?b?[2J???\""
	vpmm-top --json | grep "\"pid\": $pid, " >"$work/out"; says out '"command": "a?b?[2J???"')"
exec 4>&-
wait
ls /dev/shm >"$work/shm.after" 2>/dev/null
verdict "nothing is left" "$(grep -v -x -F -f "$work/shm.before" "$work/shm.after" | grep vpmm-top)"

for option in help version; do
	verdict "--$option" "$(run 0 vpmm-top --$option; says out vpmm-top; silent err)"
done
verdict "a bad column" "$(run 2 vpmm-top --sort=size; says err 'vpmm-top: --sort: "size": expected taken, live')"
verdict "a bad delay" "$(run 2 vpmm-top --delay=5; says err 'vpmm-top: --delay: "5" is no time with a unit'
	for short in 0s 1us; do run 2 vpmm-top --delay=$short; says err "--delay: $short is too short"; done)"
cat >"$work/watch.py" <<'END'
import os, pty, signal, sys, termios, time
stopped = len(sys.argv) > 1
pid, terminal = pty.fork()
if pid == 0:
    # A shell's background jobs have it ignored.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if stopped:
        termios.tcflow(1, termios.TCOOFF)
    os.execvp("vpmm-top", ["vpmm-top", "--delay=60s"])
text = b""
while not stopped and b"PID" not in text:
    text += os.read(terminal, 4096)
time.sleep(0.5)
if stopped:
    os.kill(pid, signal.SIGINT)
else:
    os.write(terminal, b"\x03")
begin = time.monotonic()
ended, status = 0, 0
while not ended and time.monotonic() - begin < 20:
    ended, status = os.waitpid(pid, os.WNOHANG)
    time.sleep(0.02)
if not ended:
    os.kill(pid, signal.SIGKILL)
    sys.exit("it goes on for 20 seconds")
if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGINT:
    sys.exit(f"the status is {status:#x}")
END
if "${PYTHON:-python3}" -c 'import pty' 2>/dev/null; then
	verdict "^C ends a long delay" "$("${PYTHON:-python3}" "$work/watch.py" 2>&1)"
	verdict "a signal ends it while the terminal takes nothing" "$("${PYTHON:-python3}" "$work/watch.py" stopped 2>&1)"
else
	skip "^C ends a long delay" "there is no Python"
	skip "a signal ends it while the terminal takes nothing" "there is no Python"
fi
verdict "an argument" "$(run 2 vpmm-top x; says err 'vpmm-top: unexpected argument "x"'
	run 2 vpmm-top -- -5; says err 'vpmm-top: unexpected argument "-5"')"
verdict "two formats" "$(run 2 vpmm-top --json --openmetrics; says err 'expected no --openmetrics')"
verdict "a full disk" "$(vpmm-top --openmetrics >/dev/full 2>"$work/err"
	[ $? -eq 2 ] || echo "expected exit status 2"; says err "No space left on device")"
echo "1..$count"

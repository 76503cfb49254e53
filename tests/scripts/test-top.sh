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
	*) exec 7>"$work/tagged.in" ;;
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
verdict "the largest comes first" "$(vpmm-top --json | sed -n 's/.*"taken": \([0-9]*\).*/\1/p' >"$work/taken"
	sort -rnc "$work/taken" 2>&1)"
verdict "the table has them" "$(run 0 vpmm-top; for pid in $one $two $three; do says out "$pid hold-pools"; done
	[ "$(grep -cE "^ *($one|$two|$three|$none) hold-pools" "$work/out")" -eq 4 ] || cat "$work/out"; silent err)"
verdict "sorted by process" "$(run 0 vpmm-top --once --sort=pid
	[ "$(grep hold-pools "$work/out" | awk '{ print $1 }' | sort -nc 2>&1)" = "" ] || cat "$work/out")"

# The rules of the format: families with their samples together, names with their units, and the end.
verdict "OpenMetrics" "$(run 0 vpmm-top --openmetrics; silent err
	awk '
		/^# TYPE / { family = $3; type = $4; if (seen[family]++) print "twice: " $0; next }
		/^# UNIT / { if ($3 != family || family !~ $4 "$") print "unit: " $0; next }
		/^# HELP / { if ($3 != family) print "help: " $0; next }
		/^# EOF$/ { ended = NR; next }
		{
			name = $1; sub(/\{.*/, "", name)
			if (name != (type == "counter" ? family "_total" : family)) print "name: " $0
			if ($0 !~ /^[a-z_]+\{([a-z]+="[^"]*",?)+\} [0-9]+(\.[0-9]+)?$/) print "sample: " $0
		}
		END { if (ended != NR) print "no end" }' "$work/out"
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
	run 0 vpmm-top; says out '          cache "kv"'
	run 0 vpmm-top --openmetrics; says out ",command=\"hold-pools\",tag=\"cache \\\"kv\\\"\"} 524288")"

kill -9 "$two"
sleep 0.3
verdict "a process that was killed is gone" "$(vpmm-top --json | grep "\"pid\": $two, "; holds "$one" 6; holds "$three" 10)"
exec 3>&- 4>&- 5>&- 6>&- 7>&-
wait
verdict "so are those that have ended" "$(for pid in $one $two $three; do vpmm-top --json | grep "\"pid\": $pid, "; done)"
ls /dev/shm >"$work/shm.after" 2>/dev/null
verdict "nothing is left" "$(grep -v -x -F -f "$work/shm.before" "$work/shm.after" | grep vpmm-top)"

for option in help version; do
	verdict "--$option" "$(run 0 vpmm-top --$option; says out vpmm-top; silent err)"
done
verdict "a bad column" "$(run 2 vpmm-top --sort=size; says err 'vpmm-top: --sort: "size" is none, expected taken, live')"
verdict "a bad delay" "$(run 2 vpmm-top --delay=5; says err 'vpmm-top: --delay: "5" is no time with a unit')"
verdict "an argument" "$(run 2 vpmm-top x; says err 'vpmm-top: unexpected argument "x"')"
verdict "two formats" "$(run 2 vpmm-top --json --openmetrics; says err 'expected no --openmetrics')"
verdict "a full disk" "$(vpmm-top --openmetrics >/dev/full 2>"$work/err"
	[ $? -eq 2 ] || echo "expected exit status 2"; says err "No space left on device")"
echo "1..$count"

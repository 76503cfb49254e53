#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# vpmm-replay --export: what other programs read, by the rules of their formats, and what is refused.
set -u

. "$top_srcdir/tests/support/tap.sh"
trace=$top_srcdir/tests/traces/pipeline_streams.trace.gz
python=${PYTHON:-python3}
[ "$python" != : ] || python=python3
VPMM_BACKEND=host
export VPMM_BACKEND
printf '10 a 1 3000000 0\n20 a 2 100 1\n30 f 1 3000000 1\n2000050 a 3 5000 0\n' >"$work/two.trace"
printf '# vpmm-trace 2\n0 p 1 cuda 0 2097152\n0 p 2 cuda 2 2097152\n5 a 0x10 3000000 7\n6 a 0x10 100 7 pool=2\n7 m 0x10 0x20 9000000 7\n' \
	>"$work/pools.trace"

# refuses NAME SENTENCE ARGUMENTS
refuses()
{
	name=$1 sentence=$2
	shift 2
	verdict "$name" "$(run 2 vpmm-replay "$@"; says err "vpmm-replay: $sentence"; silent out)"
}

# read_as FORMAT NAME TRACE: exports it, and has the rules of the format checked
read_as()
{
	if [ -z "$can_read" ]; then
		skip "$1 of $2" "there is no Python"
		return
	fi
	verdict "$1 of $2" "$(run 0 vpmm-replay --json --export="$1" --output="$work/exported" "$3"
		"$python" "$work/$1.py" "$work/exported" "$work/out" 2>&1)"
}

can_read=$("$python" -c 'print(1)' 2>/dev/null)

# The assertions are those of PyTorch's own reader: blocks fill their segment, and what is allocated is no larger than
# its block. Then memory must be where a block is allocated, and the history must lead to the segments.
cat >"$work/memory_viz.py" <<'END'
import json, pickle, sys

def cut(ranges, start, end):
    kept = []
    for a, b in ranges:
        kept += [(x, y) for x, y in ((a, min(b, start)), (max(a, end), b)) if x < y]
    return kept

snapshot = pickle.load(open(sys.argv[1], "rb"))
reports = [json.loads(line) for line in open(sys.argv[2])]
for segment in snapshot["segments"]:
    blocks = segment["blocks"]
    assert sum(b["size"] for b in blocks) == segment["total_size"] and segment["segment_pool_id"] == (0, 0)
    address = segment["address"]
    for b in blocks:
        assert b["address"] == address and b["requested_size"] <= b["size"] and b["frames"] == []
        address += b["size"]
    assert segment["allocated_size"] == sum(b["size"] for b in blocks if b["state"] == "active_allocated")
    assert segment["active_size"] == segment["allocated_size"]
assert sum(s["total_size"] for s in snapshot["segments"]) == sum(r["mapped"] for r in reports)
allocs = 0
for device, history in enumerate(snapshot["device_traces"]):
    mapped, live, clock = [], {}, 0
    for e in history:
        start, end = e["addr"], e["addr"] + e["size"]
        assert e["time_us"] >= clock and isinstance(e["stream"], int) and e["frames"] == []
        clock = e["time_us"]
        if e["action"] == "segment_map":
            assert cut([(start, end)], 0, 0) == [(start, end)] and cut(mapped, start, end) == mapped
            mapped.append((start, end))
        elif e["action"] == "segment_unmap":
            mapped = cut(mapped, start, end)
        elif e["action"] == "alloc":
            assert start not in live
            live[start] = e["size"]
            allocs += 1
            rest = [(start, end)]
            for a, b in mapped:
                rest = cut(rest, a, b)
            assert not rest, ("no memory at", e)
        elif e["action"] == "free_requested":
            assert live.pop(start) == e["size"]
        else:
            assert e["action"] == "free_completed", e
    segments = [s for s in snapshot["segments"] if s["device"] == device]
    assert sum(b - a for a, b in mapped) == sum(s["total_size"] for s in segments)
    active = {b["address"]: b["requested_size"] for s in segments for b in s["blocks"] if b["state"] == "active_allocated"}
    assert active == live, (active, live)
assert allocs >= sum(r["mallocs"] for r in reports)
END

# Of Chrome's format: each phase has its fields, slices of a track do not overlap, times of a track do not go back. And
# what Perfetto's importer (json_trace_tokenizer.cc, json_trace_parser.cc) counts as an error, or reads as something
# else: it knows the format by the first two characters, a counter has numbers alone, an instant its thread, and no
# thread has the number of another process's thread, nor of another process.
cat >"$work/perfetto.py" <<'END'
import json, sys

text = open(sys.argv[1]).read()
assert text.startswith('{"') and text.isascii()
events = json.loads(text)["traceEvents"]
reports = [json.loads(line) for line in open(sys.argv[2])]
tracks, most, slices, names, calls, owners = {}, {}, {}, set(), 0, {}
pids = sorted({e["pid"] for e in events})
for e in events:
    pid = e["pid"]
    assert len(e["ph"]) == 1 and e["name"] and isinstance(pid, int) and pid > 0 and e["args"], e
    assert owners.setdefault(e.get("tid", pid), pid) == pid and e.get("tid", pid) not in set(pids) - {pid}, e
    assert e["ph"] == "M" or isinstance(e["ts"], (int, float)), e
    if e["ph"] == "M":
        names.add((pid, e["tid"], e["args"]["name"]))
        continue
    assert e["ts"] >= tracks.get((pid, e.get("tid"), e["name"]), 0), e
    tracks[pid, e.get("tid"), e["name"]] = e["ts"]
    if e["ph"] == "C":
        assert all(isinstance(value, int) for value in e["args"].values()), e
        most[pid, e["name"]] = max(most.get((pid, e["name"]), 0), *e["args"].values())
    elif e["ph"] == "X":
        assert round(e["ts"] * 1000) >= slices.get((pid, e["tid"]), 0), e
        slices[pid, e["tid"]] = round((e["ts"] + e["dur"]) * 1000)
        calls += e["args"]["calls"]
    else:
        assert round(e["ts"] * 1000) >= slices.get((pid, e["tid"]), 0), e
        assert e["ph"] == "i" and e["s"] == "t" and e["name"] in ("malloc", "free") and e["args"]["bytes"] >= 0, e
        assert any(known[:2] == (pid, e["tid"]) for known in names), e
for pid, report in zip(pids, reports):
    assert most[pid, "live"] == report["peak_live"] and most[pid, "waits"] == report["waits"]
    assert 0 < most[pid, "taken"] <= report["peak_taken"] and (pid, "stranded") in most
    assert (pid, pid + 1, "driver") in names and (pid, pid + 2, "stream 0") in names
assert calls >= sum(r["creates"] + r["maps"] + r["accesses"] for r in reports)
END

verdict "a snapshot is one for memory_viz" "$(run 0 vpmm-replay --export=snapshot "$work/two.trace"; mv "$work/out" "$work/snapshot"
	[ "$(head -c 2 "$work/snapshot" | od -An -tx1)" = " 80 02" ] || echo "no pickle")"
# PyTorch's own reader, which needs nothing of PyTorch. Its sums are those of its assertions.
cat >"$work/torch_reader.py" <<'END'
import importlib.util, os, pickle, sys

torch = os.environ.get("TORCH_FOLDER") or importlib.util.find_spec("torch").submodule_search_locations[0]
reader = importlib.util.spec_from_file_location("reader", os.path.join(torch, "cuda", "_memory_viz.py"))
viz = importlib.util.module_from_spec(reader)
reader.loader.exec_module(viz)
snapshot = pickle.load(open(sys.argv[1], "rb"))
assert f"segments: {len(snapshot['segments'])}\n" in viz.segsum(snapshot)
history = viz.trace(snapshot)
assert all(f"{len(events)} entries" in history for events in snapshot["device_traces"] if events)
for show in viz.segments, viz.memory:
    lines = show(snapshot, format_flamegraph=lambda text: text).splitlines()
    assert sum(int(line.rsplit(" ", 1)[1]) for line in lines) == sum(s["total_size"] for s in snapshot["segments"])
viz.compare(snapshot["segments"], snapshot["segments"][:1], format_flamegraph=lambda text: text)
assert "add_local_files" in viz.trace_plot(snapshot) and "add_local_files" in viz.segment_plot(snapshot)
END
for name in "$work/two.trace" "$trace" "$work/pools.trace"; do
	if [ -n "${TORCH_FOLDER-}" ] || "$python" -c 'import importlib.util as u; u.find_spec("torch").origin' 2>/dev/null; then
		verdict "PyTorch's reader on ${name##*/}" "$(
			run 0 vpmm-replay --export=memory_viz --output="$work/exported" "$name"
			"$python" "$work/torch_reader.py" "$work/exported" 2>&1 >/dev/null)"
	else
		skip "PyTorch's reader on ${name##*/}" "there is no PyTorch"
	fi
done
for format in memory_viz perfetto; do
	read_as $format "a few operations" "$work/two.trace"
	read_as $format "streams" "$trace"
	read_as $format "two pools" "$work/pools.trace"
	verdict "$format to standard output, and nothing else" "$(
		run 0 vpmm-replay --export=$format "$work/two.trace"; mv "$work/out" "$work/first"; silent err
		run 0 vpmm-replay --export=$format --output="$work/second" "$work/two.trace"; says out "operations"
		[ "$(wc -c <"$work/first")" -gt 100 ] || echo "nothing written")"
	verdict "$format into a full disk" "$(
		vpmm-replay --export=$format "$trace" >/dev/full 2>"$work/err"
		[ $? -eq 2 ] || echo "expected exit status 2"
		says err "No space left on device")"
done

# keeps FILE ARGUMENTS: a replay that is refused leaves a file as it was, and nothing beside it
keeps()
{
	kept=$1
	shift
	rm -rf "$work/keep" && mkdir "$work/keep"
	echo before >"$work/keep/$kept"
	run 2 vpmm-replay "$@"
	[ "$(cat "$work/keep/"* 2>&1)" = before ] || ls -l "$work/keep"
	rm "$work/keep/$kept"
	run 2 vpmm-replay "$@"
	[ -z "$(ls -A "$work/keep")" ] || ls -lA "$work/keep"
}
printf '1 f 1 8 0\n' >"$work/bad.trace"
for format in memory_viz perfetto pprof stacks; do
	verdict "$format of what is refused changes no file" "$(
		keeps x --export=$format --output="$work/keep/x" "$work/bad.trace")"
done
long=$(printf '%0255d' 0)
verdict "what is refused changes no file of the longest name" "$(
	keeps "$long" --export=perfetto --output="$work/keep/$long" "$work/bad.trace")"
verdict "a picture of what is refused changes no file" "$(keeps x.svg --picture="$work/keep/x.svg" "$work/bad.trace")"
verdict "an export that is interrupted changes no file" "$(
	rm -rf "$work/keep" && mkdir "$work/keep" && mkfifo "$work/input" && echo before >"$work/keep/x"
	vpmm-replay --export=perfetto --output="$work/keep/x" - <"$work/input" >"$work/out" 2>"$work/err" &
	exec 3>"$work/input"
	tries=0
	while [ "$(ls -A "$work/keep" | wc -l)" -lt 2 ] && [ $tries -lt 20 ]; do
		sleep 0.05
		tries=$((tries + 1))
	done
	sleep 0.2
	kill $!
	wait $! 2>/dev/null
	[ "$(kill -l $?)" = TERM ] || echo "it is not ended by the signal"
	exec 3>&-
	[ "$(cat "$work/keep/"*)" = before ] || ls -l "$work/keep")"
verdict "a picture whose report nobody reads changes no file" "$(
	rm -rf "$work/keep" && mkdir "$work/keep" && echo before >"$work/keep/x.svg" && mkfifo "$work/unread"
	exec 8<>"$work/unread" 9>"$work/unread" 8<&-
	vpmm-replay --json --picture="$work/keep/x.svg" "$work/two.trace" >&9 2>"$work/err"
	[ $? -eq 2 ] || echo "expected exit status 2"
	says err "vpmm-replay: writing the report failed: Broken pipe"
	[ "$(cat "$work/keep/"*)" = before ] && [ "$(ls -A "$work/keep" | wc -l)" -eq 1 ] || ls -lA "$work/keep")"
verdict "an export in place of its trace" "$(cp "$work/two.trace" "$work/x"
	run 0 vpmm-replay --export=perfetto --output="$work/x" "$work/x"; says x '"traceEvents"'
	cp "$work/bad.trace" "$work/x"
	run 2 vpmm-replay --export=perfetto --output="$work/x" "$work/x"; cmp "$work/bad.trace" "$work/x")"
mode()
{
	stat -c %a "$work/$1"
}
verdict "a new file has the mode of the umask, and an old one keeps its own" "$(umask 027
	rm -f "$work/new" "$work/old" "$work/link"; : >"$work/old"; chmod 604 "$work/old"; ln -s old "$work/link"
	for name in new old link; do run 0 vpmm-replay --export=perfetto --output="$work/$name" "$work/two.trace"; done
	[ "$(mode new) $(mode old)" = "640 604" ] || ls -l "$work/new" "$work/old"
	[ -L "$work/link" ] || ls -l "$work/link"; says old '"traceEvents"')"
verdict "another name of a file stays one" "$(echo before >"$work/first"
	ln -f "$work/first" "$work/second"
	run 0 vpmm-replay --export=perfetto --output="$work/first" "$work/two.trace"; cmp "$work/first" "$work/second")"
verdict "a file that is standard output, too" "$(vpmm-replay --export=perfetto --output=/dev/stdout "$work/two.trace" \
	>"$work/out" || echo "exit status $?"; says out "operations")"

refuses "unknown format" '--export: "svg": expected' --export=svg "$work/two.trace"
refuses "two traces" "--export: expected one trace, and one pass" --export=perfetto "$work/two.trace" "$work/two.trace"
refuses "two passes" "--export: expected one trace, and one pass" --export=perfetto --repeat=2 "$work/two.trace"
refuses "another allocator" "--export: expected --allocator=vpmm" --export=perfetto --allocator=malloc "$work/two.trace"
refuses "a report in the same place" "--export: with --json, name a file" --json --export=perfetto "$work/two.trace"
refuses "a picture" "--export: expected no --picture" --picture="$work/p.svg" --export=perfetto "$work/two.trace"
refuses "an output of nothing" "--output: expected --export beside it" --output="$work/x" "$work/two.trace"
refuses "a folder that is not there" "--output: $work/no/x: No such file or directory" --export=perfetto \
	--output="$work/no/x" "$work/two.trace"
echo "1..$count"

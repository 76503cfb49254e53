#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# vpmm-replay --export=stacks and pprof: the stacks of a dump, with the lines of the source, and by the rules of pprof.
set -u

. "$top_srcdir/tests/support/tap.sh"
python=${PYTHON:-python3}
[ "$python" != : ] || python=python3

program=$top_builddir/tests/support/.libs/hold-pools
[ -e "$program" ] || program=$top_builddir/tests/support/hold-pools
start=$(nm "$program" 2>/dev/null | sed -n 's/^0*\([0-9a-f]*\) T main$/\1/p')
cat >"$work/dump" <<END
backend: host
chunk 0x7f0000000000: [2]
  0x7f0000000000 4194304 malloc stream 1 passed
stacks: 3, of one allocation in 524288 bytes
stack live 4194304 blocks 2 peak 8388608
    #0 ?? ($program+0x${start:-1})
    #1 known (/no/such/object.so+0x1234)
    #2 ?? (0x7fff00001234)
stack live 512 blocks 1 peak 1024
    #0 known (/no/such/object.so+0x1234)
    #1 work (/home/user/some (odd) file.py:17)
    #2 <module> (/home/user/some (odd) file.py:20)
stack live 0 blocks 0 peak 99
tag: a
stacks: 1, of one allocation in 524288 bytes
stack live 2097152 blocks 1 peak 2097152
    #0 known (/no/such/object.so+0x1234)
requests: 0, of those that no cache served
END
gzip -c "$work/dump" >"$work/dump.gz"

verdict "the stacks as text" "$(run 0 vpmm-replay --export=stacks "$work/dump"; silent err
	says out "4.00 MiB in 2 blocks, at most 8.00 MiB:"
	says out "    known (/no/such/object.so+0x1234)"
	says out "    work (/home/user/some (odd) file.py:17)"
	says out "512 B in 1 block, at most 1.00 KiB:")"
verdict "those that hold most first, of the pool and of its tags" "$(run 0 vpmm-replay --export=stacks "$work/dump"
	order=$(sed -n 's/ in .*, at most .*//p' "$work/out" | tr '\n' ' ')
	[ "$order" = "4.00 MiB 2.00 MiB 512 B 0 B " ] || cat "$work/out")"
if [ -n "$start" ] && addr2line -e "$program" "0x$start" 2>/dev/null | grep -q hold-pools.c:; then
	verdict "functions and lines of the source" "$(run 0 vpmm-replay --export=stacks "$work/dump.gz"
		grep -q '    main (.*hold-pools.c:[0-9]*)$' "$work/out" || cat "$work/out")"
else
	skip "functions and lines of the source" "there is no addr2line, or no debugging information"
fi
verdict "to a file" "$(run 0 vpmm-replay --export=stacks --output="$work/text" "$work/dump"; silent out
	grep -q "4.00 MiB in 2 blocks" "$work/text" || cat "$work/text")"

# A reader of protocol buffers that knows the fields of profile.proto.
cat >"$work/read.py" <<'END'
import gzip, sys

def fields(data):
    at = 0
    def varint():
        nonlocal at
        value = shift = 0
        while True:
            value |= (data[at] & 0x7f) << shift
            shift += 7
            at += 1
            if data[at - 1] < 0x80:
                return value
    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            assert key & 7 == 2
            size = varint()
            yield key >> 3, data[at:at + size]
            at += size

def packed(data):
    values, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 0x7f) << shift
        shift += 7
        if byte < 0x80:
            values.append(value)
            value = shift = 0
    return values

def table(number):
    return {dict(fields(data))[1]: list(fields(data)) for field, data in profile if field == number}

profile = list(fields(gzip.open(sys.argv[1]).read()))
strings = [data.decode() for field, data in profile if field == 6]
assert strings[0] == "" and len(set(strings)) == len(strings)
mappings, locations, functions = table(3), table(4), table(5)
types = [tuple(strings[number] for _, number in fields(data)) for field, data in profile if field == 1]
assert types == [("inuse_objects", "count"), ("inuse_space", "bytes"), ("peak_space", "bytes")], types
assert [strings[number] for field, number in profile if field == 14] == ["inuse_space"]
ranges = sorted((dict(m)[2], dict(m)[3]) for m in mappings.values())
assert all(low < high for low, high in ranges) and all(a[1] <= b[0] for a, b in zip(ranges, ranges[1:]))
for field, data in profile:
    if field != 2:
        continue
    sample = dict(fields(data))
    frames = []
    for number in packed(sample[1]):
        location = dict(locations[number])
        if 2 in location:
            mapping = dict(mappings[location[2]])
            assert mapping[2] <= location[3] < mapping[3]
        line = dict(fields(location[4])) if 4 in location else None
        function = dict(functions[line[1]]) if line else None
        frames.append(f"{strings[function[2]]}:{strings[function[4]]}:{line[2]}" if line else "-")
    print(*packed(sample[2]), *frames, sep="|")
END
if "$python" -c 1 2>/dev/null; then
	verdict "pprof" "$(run 0 vpmm-replay --export=pprof --output="$work/pb" "$work/dump"; silent out; silent err
		"$python" "$work/read.py" "$work/pb" >"$work/out" 2>&1 || cat "$work/out"
		says out "|known::0|-"
		says out "1|512|1024|known::0|work:/home/user/some (odd) file.py:17|<module>:/home/user/some (odd) file.py:20"
		says out "0|0|99")"
else
	skip "pprof" "there is no Python"
fi

printf '1 a 1 512 0\n2 f 1 512 0\n' >"$work/trace"
for format in pprof stacks; do
	verdict "$format of what has none" "$(run 2 vpmm-replay --export=$format "$work/trace"; silent out
		says err "vpmm-replay: $work/trace: there are no stacks: expected a dump of a pool with VPMM_STACKS")"
	verdict "$format of what is not there" "$(run 2 vpmm-replay --export=$format "$work/none"; silent out
		says err "vpmm-replay: $work/none: No such file or directory")"
	verdict "$format into a full disk" "$(vpmm-replay --export=$format "$work/dump" >/dev/full 2>"$work/err"
		[ $? -eq 2 ] || echo "expected exit status 2"; says err "No space left on device")"
done
echo "1..$count"

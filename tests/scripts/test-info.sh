#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# vpmm-info, as a user meets it: what is there, which settings are in force and where each is from.
set -u

. "$top_srcdir/tests/support/tap.sh"

# info STATUS ARGUMENTS: runs it, and complains if it does not exit with this status
info()
{
	expected=$1
	shift
	run "$expected" vpmm-info "$@"
}

# shows NAME VALUE SOURCE: a line of the settings
shows()
{
	grep -qE "^  $1 +$2 +$3\$" "$work/out" || {
		echo "expected: $1 $2 $3"
		cat "$work/out"
	}
}

refuses()
{
	name=$1 sentence=$2
	shift 2
	verdict "$name" "$(info 2 "$@"; says err "vpmm-info: $sentence"; silent out)"
}

# As many mappings as CUDA's driver has, or what the kernel allows the process less a sixteenth.
mappings=$(cat /proc/sys/vm/max_map_count)
mappings=$((mappings - mappings / 16))
[ "$mappings" -le 524090 ] || mappings=524090

verdict "--help names every option" "$(info 0 --help
	for option in backend json version help; do says out "--$option"; done; silent err)"
verdict "--version" "$(info 0 --version; says out "vpmm-info "; silent err)"
for option in help version; do
	verdict "--$option into a full disk" "$(vpmm-info --$option >/dev/full 2>"$work/err"
		[ $? -eq 2 ] || echo "expected exit status 2"
		says err "vpmm-info: writing the $option failed: No space left on device")"
done
refuses "unknown option" "Unknown option --fast" --fast
refuses "argument" 'unexpected argument "x"' x
refuses "argument like an option" 'unexpected argument "-5"' -- -5
refuses "unknown backend" '--backend: "gpu": expected cuda, host or auto' --backend=gpu

for bad in PAGE_SIZE=x PAGE_SIZE=1000 VA_SIZE=-1 PAGES=2.5 PAGES=999999999999999999 REUSE=never BACKEND=gpu LOG=loud EXTENT_MAX=0 \
		EXTENT_MAX=1000 SMALL=none SCRUB=all PEERS=1,1 FRAG_RATIO=101 FRAG_RATIO=5% OVERHEAD=0 OVERLAP=1001 EXPORT=file RDMA=2 LIMIT=101% LIMIT=0 KEEP=-1 \
		HOST_CAPACITY=lots HOST_DEVICES=0 HOST_MAPPINGS=many; do
	verdict "bad VPMM_$bad" "$(export "VPMM_$bad"
		[ "${bad%%=*}" = BACKEND ] || export VPMM_BACKEND=host
		info 2; says err "VPMM_${bad%%=*}"; says err "${bad#*=}"; silent out)"
done

va_size=${VPMM_VA_SIZE:-}
unset VPMM_VA_SIZE
small_va()
{
	VPMM_VA_SIZE=${va_size:-64G}
	export VPMM_VA_SIZE
}

verdict "host" "$(small_va; info 0 --backend=host; silent err; says out "host (--backend says so)"
	says out "granularity of mappings       2.00 MiB"; says out "memory                        80.0 GiB"
	grep -qE "^  virtual memory management +yes" "$work/out" && grep -qE "^  sharing by file descriptor +yes" "$work/out" ||
		cat "$work/out")"
verdict "defaults" "$(small_va; info 0 --backend=host; shows VPMM_BACKEND host option
	shows VPMM_PAGE_SIZE "2097152 \(2.00 MiB\)" default; shows VPMM_PAGES 0 default; shows VPMM_REUSE async default
	shows VPMM_EXTENT_MAX "1073741824 \(1.00 GiB\)" default; shows VPMM_SMALL pool default
	shows VPMM_FRAG_RATIO 0 default; shows VPMM_OVERHEAD 1 default; shows VPMM_OVERLAP auto default; shows VPMM_SCRUB none default
	shows VPMM_EXPORT none default; shows VPMM_RDMA off default
	shows VPMM_LOG none default; shows VPMM_LIMIT none default; shows VPMM_KEEP all default; shows VPMM_PEERS none default
	shows VPMM_HOST_CAPACITY "85899345920 \(80.0 GiB\)" default
	shows VPMM_HOST_DEVICES 1 default; shows VPMM_HOST_MAPPINGS "$mappings" default)"
verdict "environment" "$(export VPMM_BACKEND=host VPMM_PAGE_SIZE=4m VPMM_VA_SIZE=32G VPMM_PAGES=3 VPMM_REUSE=block \
		VPMM_EXTENT_MAX=64M VPMM_SMALL=driver VPMM_FRAG_RATIO=5 VPMM_OVERHEAD=3 VPMM_SCRUB=stream VPMM_LOG=error \
		VPMM_HOST_CAPACITY=1G VPMM_HOST_DEVICES=3 VPMM_HOST_MAPPINGS=77 VPMM_PEERS=2,0,1
	info 0; says out "host (VPMM_BACKEND says so)"; shows VPMM_BACKEND host environment
	shows VPMM_PAGE_SIZE "4194304 \(4.00 MiB\)" environment; shows VPMM_VA_SIZE "34359738368 \(32.0 GiB\)" environment
	shows VPMM_PAGES 3 environment; shows VPMM_REUSE block environment; shows VPMM_LOG error environment
	shows VPMM_HOST_CAPACITY "1073741824 \(1.00 GiB\)" environment; shows VPMM_HOST_DEVICES 3 environment
	shows VPMM_EXTENT_MAX "67108864 \(64.0 MiB\)" environment; shows VPMM_SMALL driver environment
	shows VPMM_FRAG_RATIO 5 environment; shows VPMM_OVERHEAD 3 environment
	shows VPMM_SCRUB stream environment; shows VPMM_PEERS 1,2 environment
	shows VPMM_HOST_MAPPINGS 77 environment)"
verdict "what is no option of a pool" "$(small_va; info 0 --backend=host
	! grep -E "VPMM_(TAG|PAUSE_HOST|HOST_KERNELS) " "$work/out"
	export VPMM_TAG=weights,drop VPMM_PAUSE_HOST=2G VPMM_HOST_KERNELS=4 VPMM_PAUSABLE=
	info 0 --backend=host; shows VPMM_TAG weights,drop environment; shows VPMM_PAUSE_HOST 2G environment
	shows VPMM_HOST_KERNELS 4 environment; ! grep VPMM_PAUSABLE "$work/out"
	info 0 --backend=host --json; says out '"VPMM_TAG": {"value": "weights,drop", "source": "environment"}')"
verdict "limit and threshold" "$(small_va; export VPMM_LIMIT=50% VPMM_KEEP=none; info 0 --backend=host
	shows VPMM_LIMIT "42949672960 \(40.0 GiB\)" environment; shows VPMM_KEEP none environment
	export VPMM_KEEP=0; info 0 --backend=host; shows VPMM_KEEP none environment
	export VPMM_LIMIT=1G VPMM_KEEP=64M; info 0 --backend=host
	shows VPMM_LIMIT "1073741824 \(1.00 GiB\)" environment
	shows VPMM_KEEP "67108864 \(64.0 MiB\)" environment)"
# A file that is there is left as it is, one that is not is not made.
verdict "trace" "$(small_va; echo old >"$work/old.trace"; mkfifo "$work/pipe"
	export VPMM_BACKEND=host
	long=$work/$(printf '%0100d' 0)
	for name in none "$work/old.trace" "$work/new.trace" "$work/pipe" "$long"; do
		VPMM_TRACE=$name info 0; shows VPMM_TRACE "$name" environment
	done
	[ "$(cat "$work/old.trace")" = old ] && [ ! -e "$work/new.trace" ] || ls "$work"
	for name in "$work" "$work/none/x" "$work/$(printf '%0300d' 0)"; do
		VPMM_TRACE=$name info 2; says err "vpmm-info: trace (VPMM_TRACE) is $name: "
	done)"
verdict "largest extent of large pages" "$(export VPMM_PAGE_SIZE=3G VPMM_VA_SIZE=63G VPMM_HOST_CAPACITY=9G
	info 0 --backend=host; shows VPMM_EXTENT_MAX "3221225472 \(3.00 GiB\)" default)"
verdict "variable set to nothing" "$(small_va; VPMM_PAGES='' info 0 --backend=host; shows VPMM_PAGES 0 default)"
verdict "initial pages are not created" "$(small_va; VPMM_HOST_CAPACITY=8M VPMM_PAGES=100 info 0 --backend=host
	shows VPMM_PAGES 100 environment)"
verdict "misspelt variable" "$(small_va; export VPMM_PAGESIZE=4M VPMM_TEST_ANY=1; info 0 --backend=host; silent err
	says out "VPMM_PAGESIZE: the nearest is VPMM_PAGE_SIZE"
	! grep VPMM_TEST_ANY "$work/out"
	info 0 --backend=host --json; says out '"unknown_variables": {"VPMM_PAGESIZE": "VPMM_PAGE_SIZE"}')"
verdict "no misspelt variable" "$(small_va; info 0 --backend=host; ! grep -i -e nearest -e warning "$work/out")"
verdict "80 columns" "$(small_va; info 0; awk 'length > 80 { print "too wide: " $0 }' "$work/out")"
verdict "auto says which backend it took" "$(small_va; info 0 --backend=auto; says out " (auto found ")"
verdict "and that a program would have to say so" "$(small_va; unset VPMM_BACKEND; info 0
	shows VPMM_BACKEND "[a-z]+" auto; VPMM_BACKEND=auto info 0; shows VPMM_BACKEND "[a-z]+" environment)"
verdict "JSON" "$(small_va; VPMM_PAGES=2 info 0 --backend=host --json; silent err
	[ "$(wc -l <"$work/out")" -eq 1 ] || cat "$work/out"
	for text in '"backend": "host"' '"backend_reason": "--backend says so"' '"device": 0' '"device_name": "' \
			'"driver_version": 0' '"memory_total": 85899345920' '"memory_free": ' '"granularity": 2097152' \
			"\"mapping_limit\": $mappings" '"virtual_memory": true' \
			'"VPMM_PAGES": {"value": 2, "source": "environment"}' \
			'"VPMM_REUSE": {"value": "async", "source": "default"}' \
			'"VPMM_EXTENT_MAX": {"value": 1073741824, "source": "default"}' \
			'"VPMM_SMALL": {"value": "pool", "source": "default"}' \
			'"VPMM_FRAG_RATIO": {"value": 0, "source": "default"}' \
			'"VPMM_OVERHEAD": {"value": 1, "source": "default"}'; do
		says out "$text"
	done
	member='"[A-Za-z0-9_]+": ("([^"\\]|\\.)*"|[0-9]+|true|false)'
	object="\{($member(, $member)*)?\}"
	sed -E ":a; s/$object/0/; ta" "$work/out" | grep -qx 0 || cat "$work/out")"

no_gpu()
{
	small_va
	info 2 --backend=cuda
	if grep -q "no CUDA driver" "$work/err"; then
		says err --backend=host
		export VPMM_BACKEND=cuda
		info 2
		says err VPMM_BACKEND=host
		VPMM_BACKEND=auto info 0
		! grep -e "=host" "$work/out"
	fi
}
# With a driver or a device, nothing of it is missing
if "$top_builddir/tools/vpmm-info" --backend=cuda >/dev/null 2>&1; then
	count=$((count + 1))
	echo "ok $count - no GPU # SKIP there is one"
else
	verdict "no GPU" "$(no_gpu)"
fi

# The cuda backend, on a driver of the test suite's own
fake=${FAKE_CUDA_DIR:-}/fake/.libs
fake_info()
{
	LD_LIBRARY_PATH=$fake${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
	export LD_LIBRARY_PATH
	small_va
	info 0
	says out "cuda (auto found a device)"
	grep -qE "^driver +CUDA [0-9]+\.[0-9]\$" "$work/out" || cat "$work/out"
	grep -qE "^  stream-ordered allocator +yes\$" "$work/out" || cat "$work/out"
	shows VPMM_BACKEND cuda auto
	if grep -q VPMM_HOST_ "$work/out"; then
		echo "settings of the host backend on cuda"
	fi
}
if [ -e "$fake/libcuda.so.1" ]; then
	verdict "cuda" "$(fake_info)"
else
	count=$((count + 1))
	echo "ok $count - cuda # SKIP no $fake/libcuda.so.1"
fi
echo "1..$count"

#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# On a machine with a GPU: rows and programs without and with the preload object, which must not show in what they say.
#
#	PRELOAD=.../libvpmm-preload.so LD_LIBRARY_PATH=... bash test-preload-programs.sh
#
# The files of tests/preload/programs and tests/preload/rows* are beside this script, or where they are in the sources.
#
#	PROGRAMS="A B ..."	those of these names only, which may be patterns of the shell: "rows-* torch-* memcheck-*"
#	RUNS=N			each so many times without and with, in turn; the table at the end has the medians
#	MONITOR=1		each once, under VPMM_PRELOAD_MONITOR=1; the table has what it allocated, and the resizes
#				by a copy
#	EXTRA=FILE		further programs: on each line a name, and a command for the shell
#	WORKLOADS=FILE		a Python program that takes the name of a workload, native or async, and a folder
#	WITHIN=SECONDS		for all, LIMIT=SECONDS for a run
#	ARCH=ARCH		for nvcc; ROWS=PROGRAM is rows, built already
set -u
# awk computes with a comma in some locales.
export LC_ALL=C.UTF-8

here=$(cd "$(dirname "$0")" && pwd)
RUNS=${RUNS-1}
PROGRAMS=${PROGRAMS-*}
MONITOR=${MONITOR-}
EXTRA=${EXTRA-}
WORKLOADS=${WORKLOADS-}
ARCH=${ARCH-native}
WITHIN=${WITHIN-580}
LIMIT=${LIMIT-60}
PRELOAD=${PRELOAD-}
case $PRELOAD in
""|/*) ;;
*) PRELOAD=$PWD/$PRELOAD ;;
esac
if [ ! -e "$PRELOAD" ]; then
	echo "1..0 # SKIP PRELOAD is no preload object: '$PRELOAD'"
	exit 0
fi
export PRELOAD

if [ -e "$here/rows.c" ]; then
	programs=$here
	rows=$here
else
	programs=$here/../preload/programs
	rows=$here/../preload
fi

work=$(mktemp -d) || exit 1
# The loader would take a name with a space or a colon in it for two. The object looks for the library beside it.
case $PRELOAD in
*[\ :]*)
	ln -s "${PRELOAD%/*}" "$work/preload" || exit 1
	PRELOAD=$work/preload/${PRELOAD##*/}
	;;
esac
sampler=
finish()
{
	[ -z "$sampler" ] || kill "$sampler" 2>/dev/null
	rm -rf "$work"
}
trap finish EXIT
count=0
failed=0

# plus NAME TEXT: a line of TAP for what is so
plus()
{
	count=$((count + 1))
	echo "ok $count - $1${2:+: $2}"
}

# minus NAME TEXT [FILE...]: a line of TAP for what is not, and the ends of these files
minus()
{
	count=$((count + 1))
	failed=$((failed + 1))
	echo "not ok $count - $1: $2"
	shift 2
	for file; do
		tail -n 15 "$file" 2>/dev/null | sed "s|^|# $(basename "$file"): |"
	done
}

skip()
{
	count=$((count + 1))
	echo "ok $count - $1 # SKIP $2"
}

read -ra patterns <<<"$PROGRAMS"

wanted()
{
	local pattern
	for pattern in "${patterns[@]}"; do
		[[ $1 == $pattern ]] && return
	done
	return 1
}

left()
{
	echo $((WITHIN - SECONDS))
}

# CUDA_VISIBLE_DEVICES hides cards from a program, and not from nvidia-smi. The driver tells how many the programs see,
# and which is their first.
read -r cards card < <(python3 - <<'END' 2>/dev/null
import ctypes
driver, count, address = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.create_string_buffer(32)
if driver.cuInit(0) == driver.cuDeviceGetCount(ctypes.byref(count)) == driver.cuDeviceGetPCIBusId(address, 32, 0) == 0:
    print(count.value, address.value.decode())
END
)

# What the device's memory holds, every 50 ms, as all processes together; the least is what is there without us.
stdbuf -oL nvidia-smi -i "${card:-0}" --query-gpu=memory.used --format=csv,noheader,nounits -lms 50 \
	>"$work/memory" 2>/dev/null &
sampler=$!

samples()
{
	wc -l <"$work/memory"
}

# peak FROM TO: MiB above the least sample, over these samples
peak()
{
	awk -v from="$1" -v to="$2" '
		$1 !~ /^[0-9]+$/ { next }
		!n++ || $1 < least { least = $1 }
		NR > from && NR <= to && $1 > most { most = $1 }
		END { if (most) print most - least; else print "?" }' "$work/memory"
}

# once SIDE NAME COMMAND...: one run; its output is in NAME.SIDE, what it wrote to standard error in NAME.SIDE-err, its
# status, time in milliseconds and memory in NAME.SIDE-figures, a line a run
once()
{
	local side=$1 name=$2 from start end status limit
	shift 2
	limit=$(left)
	[ "$limit" -gt "$LIMIT" ] && limit=$LIMIT
	[ "$limit" -gt 0 ] || limit=1
	from=$(samples)
	start=$(date +%s%N)
	if [ "$side" = monitor ]; then
		VPMM_PRELOAD_MONITOR=1 VPMM_TRACE=$work/$name.%p.trace timeout -k 5 "$limit" \
			env LD_PRELOAD="${LD_PRELOAD:+$LD_PRELOAD }$PRELOAD" "$@" \
			>"$work/$name.$side" 2>"$work/$name.$side-err" </dev/null
	elif [ "$side" = with ]; then
		VPMM_PRELOAD_REPORT=$work/$name.report timeout -k 5 "$limit" \
			env LD_PRELOAD="${LD_PRELOAD:+$LD_PRELOAD }$PRELOAD" "$@" \
			>"$work/$name.with" 2>"$work/$name.with-err" </dev/null
	else
		timeout -k 5 "$limit" "$@" >"$work/$name.without" 2>"$work/$name.without-err" </dev/null
	fi
	status=$?
	end=$(date +%s%N)
	echo "$status $(((end - start) / 1000000)) $(peak "$from" "$(samples)")" >>"$work/$name.$side-figures"
	return $status
}

# median FILE COLUMN
median()
{
	awk -v column="$2" '{ print $column }' "$1" | sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'
}

# figure NAME FIELD sum|max: of the reports of a program's pools
figure()
{
	[ -e "$work/$1.report" ] || {
		echo 0
		return
	}
	grep -o "\"$2\": [0-9]*" "$work/$1.report" | awk -v how="$3" '
		{ sum += $2; if ($2 > max) max = $2 }
		END { printf "%.0f\n", how == "sum" ? sum : max }'
}

# served NAME: allocations a run, of those that there were with the object
served()
{
	local runs
	runs=$(cat "$work/$1.with-figures" 2>/dev/null | wc -l)
	echo $(($(figure "$1" mallocs sum) / (runs ? runs : 1)))
}

# serves NAME: what the preload object did for a program
serves()
{
	local taken live
	taken=$(figure "$1" peak_taken max)
	live=$(figure "$1" peak_live max)
	echo "served $(served "$1"), peak taken $((taken >> 20)) MiB of $((live >> 20)) MiB live"
}

# seconds MILLISECONDS
seconds()
{
	awk -v ms="$1" 'BEGIN { printf "%.2f", ms / 1000 }'
}

# tabulate NAME EQUAL: a line of the table at the end
tabulate()
{
	printf '%-28s %9s %9s %9s %7s %9s %9s  %s\n' "$1" "$(served "$1")" \
		"$(median "$work/$1.without-figures" 3)" "$(median "$work/$1.with-figures" 3)" \
		"$(figure "$1" peak_taken max | awk -v live="$(figure "$1" peak_requested max)" \
			'{ if (live) printf "%.3f", $1 / live; else print "-" }')" \
		"$(seconds "$(median "$work/$1.without-figures" 2)")" \
		"$(seconds "$(median "$work/$1.with-figures" 2)")" "$2" >>"$work/table"
}

# watch NAME COMMAND...: what it allocates, and how often it resizes by a copy, without being served
watch()
{
	local name=$1 status
	shift
	wanted "$name" || return
	once monitor "$name" "$@"
	status=$?
	# Sizes are words of their own.
	cat "$work/$name".*.trace 2>/dev/null | awk -v name="$name" '
		$2 == "a" { allocations++; allocated += $4 }
		$2 == "f" { frees++ }
		$2 == "f" && match($0, / moved=[0-9]+/) {
			moves++
			bytes += substr($0, RSTART + 7, RLENGTH - 7)
			used += / used( |$)/
		}
		END {
			printf "%-28s %11d %9.0f %11d %9d %9.1f %9d\n", name, allocations, allocated / 1048576, frees,
				moves, bytes / 1048576, used
		}' >>"$work/table"
	if [ $status -ne 0 ]; then
		minus "$name" "status $status" "$work/$name.monitor" "$work/$name.monitor-err"
	elif ! ls "$work/$name".*.trace >/dev/null 2>&1; then
		minus "$name" "nothing was recorded" "$work/$name.monitor-err"
	else
		plus "$name" "recorded"
	fi
	rm -f "$work/$name".*.trace
}

# compare NAME COMMAND...: without and with the object, in turn
compare()
{
	local name=$1 run side equal bad= varies= differs=
	if [ -n "$MONITOR" ]; then
		watch "$@"
		return
	fi
	shift
	wanted "$name" || return
	for ((run = 0; run < RUNS; run++)); do
		if [ "$(left)" -le 2 ]; then
			bad="$bad, no time left after $run runs"
			break
		fi
		for side in without with; do
			once "$side" "$name" "$@" || bad="$bad, $side it status $?"
		done
		[ -e "$work/$name.first" ] || cp "$work/$name.without" "$work/$name.first"
		cmp -s "$work/$name.first" "$work/$name.without" || varies=yes
		cmp -s "$work/$name.first" "$work/$name.with" || differs=yes
	done
	if [ "$run" -eq 0 ]; then
		minus "$name" "no time left"
		return
	fi
	# Of a program whose output is another each time without the object, nothing can be said.
	if [ -n "$varies" ]; then
		equal=varies
	elif [ -n "$differs" ]; then
		equal=no
		bad="$bad, output differs"
	else
		equal=yes
	fi
	local figures
	figures="$(serves "$name")
		device without $(median "$work/$name.without-figures" 3) MiB, with $(median "$work/$name.with-figures" 3) MiB
		time without $(median "$work/$name.without-figures" 2) ms, with $(median "$work/$name.with-figures" 2) ms"
	figures=$(echo "$figures" | sed 's/^[[:space:]]*//' | paste -s -d '|' | sed 's/|/; /g')
	tabulate "$name" "$equal${bad:+ (FAILED)}"
	if [ -n "$bad" ]; then
		minus "$name" "${bad#, }; $figures" "$work/$name.without" "$work/$name.without-err" \
			"$work/$name.with" "$work/$name.with-err"
		diff "$work/$name.without" "$work/$name.with" | head -15 | sed 's/^/# diff: /'
	elif [ "$(figure "$name" mallocs sum)" -eq 0 ]; then
		minus "$name" "nothing was served" "$work/$name.with-err"
	elif [ ! -s "$work/$name.without" ]; then
		minus "$name" "it says nothing" "$work/$name.without-err"
	else
		plus "$name" "equal $equal; $figures"
	fi
	grep '^libvpmm-preload:' "$work/$name.with-err" | sort | uniq -c | sed 's/^/# said: /'
}

# compare_rows GROUP: a row's line is the same with the object, but for what vpmm-preload(7) excepts
compare_rows()
{
	local group=$1 name=rows-$1 line row sentence may
	[ -z "$MONITOR" ] && wanted "$name" || return
	once without "$name" "$work/rows" "$group" ||
		minus "$name-without" "status $?" "$work/$name.without" "$work/$name.without-err"
	once with "$name" "$work/rows" "$group" ||
		minus "$name-with" "status $?" "$work/$name.with" "$work/$name.with-err"
	while IFS= read -r line; do
		row=${line%%:*}
		grep "^$row:" "$work/$name.with" >"$work/row" || echo "$row: (the program had ended)" >"$work/row"
		case $line in
		*"# SKIP"*)
			skip "$row" "${line#*# SKIP }"
			continue
			;;
		esac
		sentence=$("$work/rows" --differ | sed -n "s/^$row	//p")
		case $sentence in
		*" wait"*) may='s/ waited=[a-z]*//g' ;;
		*free*) may='s/:.*//' ;;
		?*) may='s/ free=/ free:/g; s/ sync=/ sync:/g; s/ [a-z-]*=[^ ]*//g' ;;
		*) may= ;;
		esac
		if [ "$line" = "$(cat "$work/row")" ]; then
			plus "$row" "equal yes${sentence:+, though it need not be}"
			continue
		elif [ "$(sed "$may" <<<"$line")" = "$(sed "$may" "$work/row")" ]; then
			plus "$row" "equal no, as documented: $sentence"
		else
			minus "$row" "equal no${sentence:+, in more than documented: $sentence}"
		fi
		printf '# without %s\n# with    %s\n' "$line" "$(cat "$work/row")"
	done <"$work/$name.without"
	# A program that ends early without the object has fewer rows than one that goes on with it.
	[ "$(wc -l <"$work/$name.without")" -eq "$(wc -l <"$work/$name.with")" ] ||
		minus "$name" "another number of rows with the object" "$work/$name.with-err"
}

# check NAME COMMAND...: under compute-sanitizer with the object. The checker preloads objects of its own.
check()
{
	local name=memcheck-$1 status start
	shift
	[ -z "$MONITOR" ] && wanted "$name" || return
	if ! command -v compute-sanitizer >/dev/null; then
		skip "$name" "there is no compute-sanitizer"
		return
	elif [ "$(left)" -le 2 ]; then
		minus "$name" "no time left"
		return
	fi
	local limit
	limit=$(left)
	[ "$limit" -gt "$LIMIT" ] && limit=$LIMIT
	start=$SECONDS
	VPMM_PRELOAD_REPORT=$work/$name.report timeout -k 5 "$limit" \
		compute-sanitizer --tool memcheck --target-processes all --error-exitcode 9 \
		sh -c 'LD_PRELOAD="${LD_PRELOAD:+$LD_PRELOAD }$PRELOAD"; export LD_PRELOAD; exec "$@"' sh "$@" \
		>"$work/$name.out" 2>"$work/$name.err" </dev/null
	status=$?
	if [ $status -ne 0 ] || ! grep -q 'ERROR SUMMARY: 0 errors' "$work/$name.out" "$work/$name.err"; then
		minus "$name" "status $status after $((SECONDS - start)) s" "$work/$name.out" "$work/$name.err"
	elif [ "$(figure "$name" mallocs sum)" -eq 0 ]; then
		minus "$name" "nothing was served" "$work/$name.err"
	else
		plus "$name" "no errors; $(serves "$name"); $((SECONDS - start)) s"
	fi
}

# build NAME COMMAND...: in the background, if anybody wants it; a program that cannot be built is named when its turn comes
build()
{
	local name=$1
	shift
	wanted "$name" || wanted "memcheck-$name" || [ "$name" = rows ] || return
	"$@" -o "$work/$name" >"$work/$name.build" 2>&1 &
	builds="$builds $!"
}

# built NAME: else it is named
built()
{
	[ -x "$work/$1" ] && return
	wanted "$1" || [ "$1" = rows ] || return
	if grep -qE 'cannot find|No such file or directory|command not found' "$work/$1.build" &&
	   [[ $1 == blas || $1 == cudnn ]]; then
		skip "$1" "it cannot be built: $(grep -m 1 -E 'cannot find|No such file|not found' "$work/$1.build")"
	else
		minus "$1" "it cannot be built" "$work/$1.build"
	fi
	return 1
}

# has MODULE: whether Python has it
has()
{
	python3 -c "import importlib.util, sys; sys.exit(not importlib.util.find_spec('$1'))" 2>/dev/null
}

# python NAME MODULE COMMAND...
python()
{
	local name=$1 module=$2
	shift 2
	wanted "$name" || return
	if has "$module"; then
		compare "$name" "$@"
	else
		skip "$name" "Python has no $module"
	fi
}

# As vpmm-run has it for all programs.
export VPMM_EXPORT="${VPMM_EXPORT:-auto}"
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
cuda=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
builds=
if [ -n "${ROWS-}" ]; then
	cp "$ROWS" "$work/rows"
else
	gcc -std=gnu11 -O1 -o "$work/rows" "$rows"/rows*.c -ldl >"$work/rows.build" 2>&1 &
	builds=$!
fi
compile="$nvcc -O2 -arch=$ARCH -Xlinker -rpath,$cuda/lib64"
build runtime-static $compile -cudart static "$programs/runtime.cu"
build runtime-shared $compile -cudart shared "$programs/runtime.cu"
build runtime-per-thread $compile --default-stream per-thread "$programs/runtime.cu"
build ipc $compile "$programs/ipc.cu"
build blas $compile "$programs/blas.cu" -lcublas
build vector $compile "$programs/vector.cu"
# Python's packages have it, without a name for the linker.
cudnn=$(python3 -c 'import nvidia.cudnn; print(nvidia.cudnn.__path__[0])' 2>/dev/null)/lib
build cudnn $compile -Xlinker -rpath,"$cudnn" "$programs/cudnn.cu" -L"$cudnn" -l:libcudnn.so.9
build driver gcc -O2 -I"$cuda/include" "$programs/driver.c" -L"$cuda/lib64/stubs" -L"$cuda/lib64" -lcuda
for pid in $builds; do
	wait "$pid"
done

echo "# $(nvidia-smi -i "${card:-0}" --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null ||
	echo 'no nvidia-smi')"
echo "# built after $SECONDS s"
if [ -z "$MONITOR" ] && built rows; then
	for group in memory attributes waits captures contexts faults; do
		compare_rows $group
	done
fi
for name in runtime-static runtime-shared runtime-per-thread driver ipc blas cudnn vector; do
	if built $name; then
		compare $name "$work/$name"
	fi
done

# Sums in an order of their own choice would differ from run to run.
export CUBLAS_WORKSPACE_CONFIG=:4096:8 PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
async="env PYTORCH_ALLOC_CONF=backend:cudaMallocAsync PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync"
python torch-native torch python3 "$programs/torch_train.py"
python torch-async torch $async python3 "$programs/torch_train.py"
python torch-ipc torch python3 "$programs/torch_ipc.py"
python torch-conv-native torch python3 "$programs/torch_conv.py"
python torch-conv-async torch $async python3 "$programs/torch_conv.py"
python cupy-pool cupy python3 "$programs/cupy_sums.py"
python cupy-async cupy python3 "$programs/cupy_sums.py" async
python numba numba python3 "$programs/numba_sums.py"
python jax-async jax env XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async XLA_PYTHON_CLIENT_PREALLOCATE=false \
	XLA_FLAGS="--xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0" python3 "$programs/jax_train.py"
if [ "${cards:-0}" -ge 2 ]; then
	python nccl-native torch python3 "$programs/nccl_sums.py"
	python nccl-async torch $async python3 "$programs/nccl_sums.py"
	python nccl-legacy torch env NCCL_CUMEM_ENABLE=0 python3 "$programs/nccl_sums.py"
	[ ! -x "$work/ipc" ] || compare ipc-devices "$work/ipc" devices
elif wanted nccl-native; then
	skip nccl-native "it takes two GPUs"
fi

if [ -n "$WORKLOADS" ]; then
	for workload in gpt_varlen llama_generate long_context pipeline_streams stark_prover; do
		python $workload-native torch python3 "$programs/torch_losses.py" "$WORKLOADS" $workload native "$work"
		python $workload-async torch $async python3 "$programs/torch_losses.py" "$WORKLOADS" $workload async "$work"
	done
fi
while read -r name command; do
	[ -z "$name" ] || compare "$name" bash -c "$command"
done < <([ -z "$EXTRA" ] || cat "$EXTRA")

# With smaller blocks: the checker is slow.
if [ -x "$work/runtime-static" ]; then
	check runtime-static "$work/runtime-static" 16777216
fi
if [ -x "$work/driver" ]; then
	check driver "$work/driver"
fi
if [ -x "$work/blas" ]; then
	check blas "$work/blas"
fi
if [ -s "$work/table" ] && [ -n "$MONITOR" ]; then
	echo "#"
	echo "# Resizes are frees of blocks that were copied whole to the start of a larger one allocated later; used are"
	echo "# those with other work between the copy and the free. Sizes in MiB."
	{
		printf '%-28s %11s %9s %11s %9s %9s %9s\n' program allocations MiB frees resizes copied used
		cat "$work/table"
	} | sed 's/^/# /'
	echo "#"
elif [ -s "$work/table" ]; then
	echo "#"
	echo "# Medians of $RUNS runs without and with the object, in turn. served: allocations a run. memory: MiB of the"
	echo "# device, the most at once, by samples; ratio: the pool's memory to what was requested of it. time: seconds,"
	echo "# from the start of the process to its end."
	{
		printf '%-28s %9s %9s %9s %7s %9s %9s  %s\n' "" "" memory memory "" time time results
		printf '%-28s %9s %9s %9s %7s %9s %9s  %s\n' program served without with ratio without with equal
		cat "$work/table"
	} | sed 's/^/# /; s/ *$//'
	echo "#"
fi
echo "# $SECONDS s"
echo "1..$count"
[ $failed -eq 0 ]

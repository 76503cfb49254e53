#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# On a machine with a GPU: rows and programs without and with the preload object, which must not show in what they say.
#
#	PRELOAD=.../libvpmm-preload.so LD_LIBRARY_PATH=... bash test-preload-programs.sh
#
# The files of tests/preload/programs and tests/preload/rows* are beside this script, or where they are in the sources.
# RUNS=N runs each N times in turn and tells median times; ONLY=PATTERN runs the programs whose name matches; ARCH is
# nvcc's; WITHIN=SECONDS ends it all, LIMIT=SECONDS one run. ROWS=PROGRAM is rows, built already.
set -u

here=$(cd "$(dirname "$0")" && pwd)
RUNS=${RUNS-1}
ONLY=${ONLY-.}
ARCH=${ARCH-native}
WITHIN=${WITHIN-290}
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

wanted()
{
	[[ $1 =~ $ONLY ]]
}

left()
{
	echo $((WITHIN - SECONDS))
}

# What the device's memory holds, every 50 ms, as all processes together; the least is what is there without us.
stdbuf -oL nvidia-smi -i 0 --query-gpu=memory.used --format=csv,noheader,nounits -lms 50 >"$work/memory" 2>/dev/null &
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
	if [ "$side" = with ]; then
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

# serves NAME: what the preload object did for a program
serves()
{
	local taken live
	taken=$(figure "$1" peak_taken max)
	live=$(figure "$1" peak_live max)
	echo "served $(($(figure "$1" mallocs sum) / RUNS)), peak taken $((taken >> 20)) MiB of $((live >> 20)) MiB live"
}

# compare NAME COMMAND...: without and with the object, in turn
compare()
{
	local name=$1 run side bad=
	shift
	wanted "$name" || return
	if [ "$(left)" -le 2 ]; then
		minus "$name" "no time left"
		return
	fi
	for ((run = 0; run < RUNS; run++)); do
		for side in without with; do
			once "$side" "$name" "$@" || bad="$bad, $side it status $?"
		done
		cmp -s "$work/$name.without" "$work/$name.with" || bad="$bad, output differs"
	done
	local figures
	figures="$(serves "$name")
		device without $(median "$work/$name.without-figures" 3) MiB, with $(median "$work/$name.with-figures" 3) MiB
		time without $(median "$work/$name.without-figures" 2) ms, with $(median "$work/$name.with-figures" 2) ms"
	figures=$(echo "$figures" | sed 's/^[[:space:]]*//' | paste -s -d '|' | sed 's/|/; /g')
	if [ -n "$bad" ]; then
		minus "$name" "${bad#, }; $figures" "$work/$name.without" "$work/$name.without-err" \
			"$work/$name.with" "$work/$name.with-err"
		diff "$work/$name.without" "$work/$name.with" | head -15 | sed 's/^/# diff: /'
	elif [ "$(figure "$name" mallocs sum)" -eq 0 ]; then
		minus "$name" "equal yes, but nothing was served" "$work/$name.with-err"
	elif [ ! -s "$work/$name.without" ]; then
		minus "$name" "it says nothing" "$work/$name.without-err"
	else
		plus "$name" "equal yes; $figures"
	fi
	grep '^libvpmm-preload:' "$work/$name.with-err" | sort | uniq -c | sed 's/^/# said: /'
}

# compare_rows GROUP: a row's line is the same with the object, but for what vpmm-preload(7) excepts
compare_rows()
{
	local group=$1 name=rows-$1 line row sentence may
	wanted "$name" || return
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
	wanted "$name" || return
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
		plus "$name" "no errors; $(RUNS=1 serves "$name"); $((SECONDS - start)) s"
	fi
}

# build NAME COMMAND...: in the background, if anybody wants it; a program that cannot be built is named when its turn comes
build()
{
	local name=$1
	shift
	wanted "$name" || wanted "memcheck-$name" || return
	"$@" -o "$work/$name" >"$work/$name.build" 2>&1 &
	builds="$builds $!"
}

# built NAME: else it is named
built()
{
	[ -x "$work/$1" ] && return
	wanted "$1" || [ "$1" = rows ] || return
	if grep -qE 'cannot find -l|No such file or directory|command not found' "$work/$1.build" &&
	   [ "$1" = blas ]; then
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
build blas $compile "$programs/blas.cu" -lcublas
build driver gcc -O2 -I"$cuda/include" "$programs/driver.c" -L"$cuda/lib64/stubs" -L"$cuda/lib64" -lcuda
for pid in $builds; do
	wait "$pid"
done

echo "# $(nvidia-smi -i 0 --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null || echo 'no nvidia-smi')"
echo "# built after $SECONDS s"
if built rows; then
	for group in memory attributes waits captures contexts faults; do
		compare_rows $group
	done
fi
for name in runtime-static runtime-shared runtime-per-thread driver blas; do
	if built $name; then
		compare $name "$work/$name"
	fi
done

# Sums in an order of their own choice would differ from run to run.
export CUBLAS_WORKSPACE_CONFIG=:4096:8 PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
async="env PYTORCH_ALLOC_CONF=backend:cudaMallocAsync PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync"
python torch-native torch python3 "$programs/torch_train.py"
python torch-async torch $async python3 "$programs/torch_train.py"
python torch-conv-native torch python3 "$programs/torch_conv.py"
python torch-conv-async torch $async python3 "$programs/torch_conv.py"
python cupy-pool cupy python3 "$programs/cupy_sums.py"
python cupy-async cupy python3 "$programs/cupy_sums.py" async
python numba numba python3 "$programs/numba_sums.py"
python jax-async jax env XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async XLA_PYTHON_CLIENT_PREALLOCATE=false \
	XLA_FLAGS="--xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0" python3 "$programs/jax_train.py"

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
echo "# $SECONDS s"
echo "1..$count"
[ $failed -eq 0 ]

#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# Whether a driver exports variants of the preload object's calls that it does not know.
set -u

. "$top_srcdir/tests/support/tap.sh"

hooks=$top_srcdir/lib/preload/hooks.h
submissions=$top_srcdir/lib/preload/submissions.h

# Calls that begin like ours, and why they have no hook.
cat >"$work/left" <<'END'
cuDeviceGetDefaultMemPool	answers with a handle, which is asked for where it matters
cuDeviceGetMemPool	the same
cuDeviceSetMemPool	the current pool is asked for where it matters
cuMemAlloc	32 bits, of CUDA 3.1
cuMemAllocHost	host memory
cuMemAllocHost_v2	host memory
cuMemAllocManaged	managed memory
cuMemAllocPitch	32 bits, of CUDA 3.1
cuMemFree	32 bits, of CUDA 3.1
cuMemFreeHost	host memory
cuMemGetAddressRange	32 bits, of CUDA 3.1
cuMemGetInfo	32 bits, of CUDA 3.1
cuMemPoolCreate	pools of a program's own
cuMemPoolDestroy	pools of a program's own
cuMemPoolExportPointer	pools of a program's own
cuMemPoolExportToShareableHandle	pools of a program's own
cuMemPoolGetAccess	what was set at the driver's pool is right for ours
cuMemPoolImportFromShareableHandle	pools of a program's own
cuMemPoolImportPointer	pools of a program's own
END
like='^cu(GetProcAddress|MemAlloc|MemFree|MemGetInfo|MemGetAddressRange|PointerGet|PointerSet|Ipc(Get|Open|Close)Mem|MemPool|'
like="${like}DevicePrimaryCtx(Retain|Release|Reset)|Stream(Begin|End)Capture|StreamDestroy|Ctx(En|Dis)ablePeer|"
like="${like}CtxDestroy|Device[GS]et.*MemPool|Launch|GraphLaunch|Memcpy|Memset|MemPrefetch|MemDiscard|MemBatch|"
like="${like}StreamBatchMemOp|StreamWriteValue)"

# unknown LIST: those of the list that begin like ours and are neither hooked nor left
unknown()
{
	{
		sed -n 's/^	X(\(cu[A-Za-z0-9_]*\),.*/\1/p' "$hooks"
		grep -o 'X(cu[A-Za-z0-9_]*)' "$submissions" | sed 's/X(\(.*\))/\1/'
		cut -f 1 "$work/left"
	} | sort -u >"$work/known"
	grep -E "$like" "$1" | sort -u | comm -23 - "$work/known"
}

printf 'cuMemAlloc_v2\ncuMemAlloc_v3\ncuMemAllocAsync_ptsz\ncuMemFreeAsync_v2\ncuLaunchKernel\ncuMemcpy9D\ncuInit\n' \
	>"$work/planted"
verdict "a new variant is found" "$([ "$(unknown "$work/planted" | tr '\n' ' ')" = "cuMemAlloc_v3 cuMemFreeAsync_v2 cuMemcpy9D " ] ||
	unknown "$work/planted")"

# The Toolkit's stub has the names of its driver.
found=
for stub in /usr/local/cuda*/lib64/stubs/libcuda.so /usr/local/cuda*/lib/stubs/libcuda.so; do
	[ ! -e "$stub" ] || found=$stub
done
count=$((count + 1))
if [ -z "$found" ]; then
	echo "ok $count - the driver has no other # SKIP there is no CUDA Toolkit"
else
	count=$((count - 1))
	$NM -D --defined-only "$found" | sed 's/.* //; s/@.*//' >"$work/driver"
	verdict "the driver has no other" "$(unknown "$work/driver")"
	# cuStreamBeginCaptureToGraph is of CUDA 12.3.
	sort -u "$work/driver" >"$work/sorted"
	verdict "the driver has each of them" "$(sed -n 's/^	X(\(cu[A-Za-z0-9_]*\),.*/\1/p' "$hooks" |
		grep -v ToGraph | sort -u | comm -23 - "$work/sorted")"
fi
echo "1..$count"

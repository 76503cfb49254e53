# SPDX-License-Identifier: LGPL-2.1-or-later
"""Sums tensors of two GPUs by NCCL, in a process each, and prints what came out to the bit."""
import os
import subprocess
import sys
import tempfile

if len(sys.argv) == 1:
    with tempfile.TemporaryDirectory() as directory:
        ranks = [subprocess.Popen([sys.executable, __file__, str(rank), os.path.join(directory, "store")])
                 for rank in (0, 1)]
        sys.exit(max(abs(rank.wait()) for rank in ranks))

import torch
import torch.distributed as dist

rank = int(sys.argv[1])
torch.cuda.set_device(rank)
dist.init_process_group("nccl", init_method=f"file://{sys.argv[2]}", rank=rank, world_size=2,
                        device_id=torch.device("cuda", rank))
sizes = torch.Generator().manual_seed(3)
numbers = torch.Generator(device="cuda").manual_seed(4 + rank)
side = torch.cuda.Stream()

for step in range(40):
    count = int(torch.randint(1, 1 << int(torch.randint(4, 25, (1,), generator=sizes)), (1,), generator=sizes))
    x = torch.randint(-1000, 1000, (count,), device="cuda", generator=numbers)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        x.record_stream(side)
        dist.all_reduce(x)
        both = torch.empty(2 * count, dtype=x.dtype, device="cuda")
        dist.all_gather_into_tensor(both, x)
        found = (int(x.sum()), int(both[count:].sum()))
    if rank == 0:
        print(step, count, *found, flush=True)
dist.destroy_process_group()

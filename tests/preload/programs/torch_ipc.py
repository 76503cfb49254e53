# SPDX-License-Identifier: LGPL-2.1-or-later
"""Tensors of PyTorch's own allocator that torch.multiprocessing shares with another process, in both directions."""

import torch
import torch.multiprocessing as mp


def work(there, back):
    total = 0.0
    while True:
        tensor = there.get()
        if tensor is None:
            break
        total += tensor.double().sum().item()
        tensor += 1
        torch.cuda.synchronize()
        del tensor
        back.put(total)
    own = torch.full((3_000_000,), 2.0, device="cuda")
    back.put(own)
    there.get()


def main():
    mp.set_start_method("spawn")
    there, back = mp.Queue(), mp.Queue()
    process = mp.Process(target=work, args=(there, back))
    process.start()
    kept = [torch.ones(700, device="cuda") for _ in range(20)]
    for size in (1, 1000, 300_000, 3_000_000, 30_000_000):
        tensor = torch.arange(size, device="cuda", dtype=torch.float32) % 97
        before = tensor.double().sum().item()
        there.put(tensor)
        total = back.get()
        print(size, before, total, tensor.double().sum().item(), flush=True)
    there.put(None)
    theirs = back.get()
    print("theirs", theirs.sum().item(), "kept", sum(t.sum().item() for t in kept), flush=True)
    del theirs
    there.put(None)
    process.join()
    print("exit", process.exitcode, flush=True)


if __name__ == "__main__":
    main()

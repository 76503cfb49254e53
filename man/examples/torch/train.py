#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Trains a small net in memory of libvpmm, halves the batch when memory runs out, and tells what it took."""

import torch
import vpmm.torch

# Before anything is done on a GPU.
vpmm.torch.enable()


def step(net, optimizer, batch):
    x = torch.randn(batch, 1024, device="cuda")
    loss = net(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def main():
    layers = [torch.nn.Linear(1024, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 1024)]
    net = torch.nn.Sequential(*layers).cuda()
    optimizer = torch.optim.AdamW(net.parameters())
    batch = 1 << 28
    done = 0
    while done < 20:
        try:
            step(net, optimizer, batch)
            done += 1
        except RuntimeError as error:
            if "CUDA out of memory" not in str(error):
                raise
            print(error)
            optimizer.zero_grad(set_to_none=True)
            batch //= 2
    print(f"a batch of {batch}: {torch.cuda.max_memory_allocated()} bytes allocated, "
          f"{torch.cuda.max_memory_reserved()} reserved")
    print(f"{vpmm.torch.stats().defrags} blocks were made by remapping")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Programs that no rule or number of the policy was chosen on, as traces for tune.

Usage: unseen.py [--best-fit] DIR

Writes DIR/NAME.trace for each, for `tune --only=NAME DIR/NAME.trace`. With --best-fit it prints, too, what an allocator
would take that has one heap, gives each request the smallest free range that fits, and merges free neighbours.
"""
import argparse
import bisect
import heapq
import math
import os
import random

KIB, MIB = 1 << 10, 1 << 20


class Program:
    """Its records: (id, bytes, stream), with 0 bytes for a free."""

    def __init__(self, name):
        self.random = random.Random(name)
        self.records, self.blocks, self.live, self.made = [], {}, 0, 0

    def malloc(self, size, stream=0):
        size = max(int(size), 1)
        self.made += 1
        self.blocks[self.made] = (size, stream)
        self.live += size
        self.records.append((self.made, size, stream))
        return self.made

    def free(self, *blocks, stream=None):
        for block in blocks:
            size, home = self.blocks.pop(block)
            self.live -= size
            self.records.append((block, 0, home if stream is None else stream))

    def size(self, block):
        return self.blocks[block][0]

    def passing(self, *sizes):
        """Blocks that are freed at once."""
        self.free(*[self.malloc(size) for size in sizes])

    def moved(self, block, size):
        """A block of another size in place of one."""
        new = self.malloc(size)
        self.free(block)
        return new

    def any_of(self, blocks):
        return blocks.pop(self.random.randrange(len(blocks)))


def adapters(p):
    """Weights, and adapters of them for one request or another, of which the latest used stay."""
    cached = []
    for _ in range(16):
        p.malloc(64 * MIB + p.random.randint(0, 30) * MIB)
    for _ in range(1500):
        wanted = p.random.randint(0, 60)
        known = [entry for entry in cached if entry[0] == wanted]
        size = (3 + wanted % 17) * 5 * MIB
        if known:
            cached.remove(known[0])
        while not known and cached and sum(p.size(b) for _, bs in cached for b in bs) + size > 1500 * MIB:
            p.free(*cached.pop(0)[1])
        cached.append(known[0] if known else (wanted, [p.malloc(size // 8) for _ in range(8)]))
        batch = p.random.randint(1, 64)
        p.passing(*[batch * (i % 4 + 1) * 256 * KIB for i in range(6)])


def refinement(p):
    """A mesh: four small blocks in place of a larger one, or one in place of four."""
    sizes = [512 * KIB, 1324 * KIB, 5020 * KIB, 18 * MIB]
    levels = [[p.malloc(size) for _ in range(200 * MIB // size + 4)] for size in sizes]
    for step in range(3000):
        i = p.random.randrange(3)
        if p.random.random() < .5 + .3 * math.sin(step / 200) and levels[i + 1]:
            p.free(p.any_of(levels[i + 1]))
            levels[i] += [p.malloc(sizes[i]) for _ in range(4)]
        elif len(levels[i]) >= 8:
            first = p.random.randrange(len(levels[i]) - 4)
            p.free(*levels[i][first:first + 4])
            del levels[i][first:first + 4]
            levels[i + 1].append(p.malloc(sizes[i + 1]))
        if step % 50 == 0:
            p.passing(*[p.size(block) // 8 for level in levels for block in level[:30]])


def bursts(p):
    """Many blocks of one size, then many of another, four such bursts at a time."""
    held = []
    for _ in range(200):
        size = int(p.random.lognormvariate(0, 1.2) * 6 * MIB) + 4 * KIB
        count = min(max(1, 600 * MIB // size // p.random.randint(1, 4)), 200)
        held.append([p.malloc(size) for _ in range(count)])
        if len(held) > 4:
            p.free(*p.any_of(held))


def diffusion(p):
    """A network of down and up blocks, with another resolution in each batch."""
    for _ in range(40):
        p.malloc(p.random.randint(2, 30) * MIB)
    for _ in range(120):
        pixels = p.random.randrange(512, 1537, 64) * p.random.randrange(512, 1537, 64)
        sizes = [pixels // (64 * 4 ** level) * (40, 80, 160, 160)[level] * 16 for level in range(4) for _ in range(3)]
        kept = []
        for size in sizes:
            wide = p.malloc(2 * size)
            kept.append(p.malloc(size))
            p.free(wide)
        for size in reversed(sizes):
            wide = p.malloc(2 * size)
            p.free(kept.pop())
            out = p.malloc(size)
            p.free(wide, out)
        p.passing(pixels * 12)


def graph_samples(p):
    """Three layers of sampled neighbours, never as many as before, and results of which some stay."""
    kept = []
    for _ in range(10):
        p.malloc(p.random.randint(1, 20) * MIB)
    for _ in range(500):
        scale, layers = max(.3, p.random.gauss(1, .25)), []
        for layer in range(3):
            layers.append(p.malloc(scale * 8 ** layer * 400 * KIB))
            wide = p.malloc(scale * 8 ** layer * 100 * KIB)
            layers.append(p.malloc(scale * 8 ** layer * 250 * KIB))
            p.free(wide)
        for block in reversed(layers):
            gradient = p.malloc(p.size(block))
            p.free(block, gradient)
        kept.append(p.malloc(p.random.randint(100, 3000) * KIB))
        if len(kept) > 60:
            p.free(p.any_of(kept))


def hash_join(p):
    """A table that doubles while columns come in, then sorted results."""
    for _ in range(60):
        rows, room, got, columns = p.random.randint(20, 400) * MIB, MIB, 0, []
        table = p.malloc(room)
        while got < rows:
            columns.append(p.malloc(p.random.randint(1, 16) * MIB))
            got += p.size(columns[-1])
            part = p.malloc(p.size(columns[-1]) // 2)
            if got > room * .7:
                room *= 2
                table = p.moved(table, room)
            p.free(part)
        out = p.malloc(rows // 3)
        for column in columns:
            p.passing(p.size(column) // 4)
        p.random.shuffle(columns)
        p.free(*columns, table)
        p.free(p.moved(out, rows // 3))


def serving(p):
    """Requests whose caches double as their texts grow, some dozens at a time."""
    requests = []
    for _ in range(4000):
        if len(requests) < 48 and p.random.random() < .3:
            requests.append([p.malloc(2 * MIB), p.random.randint(1, 64) * MIB, 0])
        scratch = p.malloc(p.random.randint(1, 48) * len(requests) * 64 * KIB)
        for request in list(requests):
            request[2] += p.random.randint(64, 512) * KIB
            if request[2] > p.size(request[0]):
                request[0] = p.moved(request[0], 2 * p.size(request[0]))
            if request[2] >= request[1]:
                p.free(request[0])
                requests.remove(request)
        p.free(scratch)


def experts(p):
    """Eight experts share a batch, unevenly and never as before."""
    for _ in range(32):
        p.malloc(40 * MIB)
    for _ in range(1200):
        cuts = [0] + sorted(p.random.randint(0, 8192) for _ in range(7)) + [8192]
        parts = [high - low for low, high in zip(cuts, cuts[1:])]
        inside = [p.malloc(part * 8192) for part in parts]
        hidden = [p.malloc(part * 28672) for part in parts]
        p.free(*inside)
        out = [p.malloc(part * 8192) for part in parts]
        p.free(*hidden)
        whole = p.malloc(8192 * 8192)
        p.free(*out, whole)


def hand_over(p):
    """One stream fills blocks that another reads and frees."""
    queue = []
    for step in range(6000):
        queue.append(p.malloc(p.random.randint(1, 40) * 512 * KIB))
        if len(queue) > 20 + p.random.randint(-15, 15) or step % 37 == 0:
            first = queue.pop(0)
            wide = p.malloc(2 * p.size(first), stream=1)
            p.free(first, wide, stream=1)
        if len(queue) > 30:
            p.free(queue.pop(0), stream=1)


def proofs(p):
    """Columns, their extensions and a tree over these, of one size in each proof."""
    for _ in range(30):
        size = 8 << p.random.randint(20, 23)
        columns = [p.malloc(size + p.random.choice([0, 0, 32 * KIB])) for _ in range(12)]
        extended = []
        for _ in columns:
            extended.append(p.malloc(4 * size))
            p.passing(size)
        rest = [p.malloc(4 * size >> i) for i in range(8)] + [p.malloc(4 * size + MIB)]
        p.free(*extended[::2])
        folded = 4 * size
        while folded > 256 * KIB:
            rest.append(p.malloc(folded))
            folded //= 2
            p.passing(folded)
        p.free(*extended[1::2], *columns, *rest)


def tides(p):
    """From nothing to the peak, then back to a twentieth in any order; other sizes each time."""
    kept = []
    for tide in range(25):
        scale, high, blocks = p.random.uniform(.5, 8), p.random.uniform(1400, 2000) * MIB, []
        while p.live < high:
            blocks.append(p.malloc(p.random.expovariate(1) * scale * 4 * MIB + 600 * KIB))
        p.random.shuffle(blocks)
        few = len(blocks) // 20
        p.free(*blocks[few:])
        kept += blocks[:few]
        if tide % 5 == 4:
            p.free(*kept)
            kept = []


def leftovers(p):
    """Blocks that come and go, and one small one in eight that stays."""
    for _ in range(800):
        blocks = [p.malloc(p.random.randint(1, 32) * MIB) for _ in range(8)]
        p.malloc(p.random.randint(20, 900) * KIB)
        p.free(*reversed(blocks))


def streams(p):
    """Eight streams, each with as many blocks as it may have, freed at random."""
    held = [[] for _ in range(8)]
    for _ in range(16000):
        stream = p.random.randrange(8)
        if len(held[stream]) > 10 + 3 * stream:
            p.free(p.any_of(held[stream]))
        else:
            size = p.random.choice([1, 2, 3, 5, 8, 13, 21]) * p.random.choice([MIB, 700 * KIB])
            held[stream].append(p.malloc(size, stream=stream))


def training(p):
    """Steps of one batch size, then evaluation with others."""
    weights = [p.malloc(p.random.choice([4, 9, 16, 36]) * MIB) for _ in range(24)]
    for step in range(240):
        trains = step % 20 < 14
        batch, kept = 8 if trains else p.random.choice([16, 24, 32]), []
        for layer in range(24):
            out = p.malloc(batch * (layer % 5 + 1) * 300 * KIB)
            wide = p.malloc(batch * (layer % 3 + 1) * 700 * KIB)
            if not trains and kept:
                p.free(kept.pop())
            kept.append(out)
            p.free(wide)
        gradients = []
        for layer in reversed(range(24) if trains else []):
            gradients.append(p.malloc(p.size(weights[layer])))
            wide = p.malloc(batch * (layer % 5 + 1) * 300 * KIB)
            p.free(kept.pop(), wide)
        p.free(*gradients, *kept)


def encoder(p):
    """A text encoder in mixed precision, batches of 16 texts. The optimizer's state comes with the first step."""
    width, layers = 768, 8
    matrices = [width * width] * 4 + [4 * width * width] * 2
    tables = [30522 * width, 512 * width]
    for size in tables + matrices * layers:
        p.malloc(4 * size)
    for step in range(60):
        tokens = 16 * max(p.random.randint(32, 480) for _ in range(16))
        half, full, wide = 2 * tokens * width, 4 * tokens * width, 8 * tokens * width
        copies, gradients, kept = [], [], []
        state = p.malloc(full)
        for _ in range(layers):
            saved = []
            for size in matrices:
                saved.append(p.malloc(wide if size == matrices[-1] and saved else half))
                copies.append(p.malloc(2 * size))
                out = p.malloc(wide if len(copies) % 6 == 5 else half)
                if len(copies) % 6 in (1, 2, 3, 5):
                    saved.append(out)
                    continue
                saved.append(p.malloc(half // 2))
                dropped = p.malloc(half)
                p.free(out)
                saved += [p.malloc(full), state]
                p.free(dropped)
                state = p.malloc(full)
            kept.append(saved)
        gradient = p.malloc(full)
        p.free(state)
        while kept:
            saved = kept.pop()
            for size in reversed(matrices):
                passing = p.malloc(wide if size == matrices[-1] else half)
                rounded = p.malloc(2 * size)
                gradients.append(p.malloc(4 * size))
                p.free(rounded, *[saved.pop() for _ in range(min(3, len(saved)))])
                gradient = p.moved(gradient, full)
                p.free(passing)
            p.free(*saved)
        gradients += [p.malloc(4 * size) for size in tables]
        p.free(gradient, *copies)
        if not step:
            for size in tables + matrices * layers:
                p.malloc(4 * size)
                p.malloc(4 * size)
        p.free(*gradients)


def powers(p):
    """Few sizes of many are common, and few blocks live long."""
    sizes, ends = [int(256 * KIB * (i + 1) ** 1.2) for i in range(200)], []
    for step in range(20000):
        while ends and ends[0][0] <= step:
            p.free(heapq.heappop(ends)[1])
        size = sizes[min(199, int(p.random.paretovariate(1)) - 1 + p.random.randint(0, 40))]
        heapq.heappush(ends, (step + min(8000, int(4 * p.random.paretovariate(.7))), p.malloc(size)))


PROGRAMS = [adapters, bursts, diffusion, encoder, experts, graph_samples, hand_over, hash_join, leftovers, powers,
            proofs, refinement, serving, streams, tides, training]


def best_fit(records):
    """Returns what is live at the most, and how large the heap gets."""
    free, starts, ends, blocks, top, live, peak = [], {}, {}, {}, 0, 0, 0

    def drop(addr, size):
        free.pop(bisect.bisect_left(free, (size, addr)))
        del starts[addr], ends[addr + size]

    def add(addr, size):
        bisect.insort(free, (size, addr))
        starts[addr] = ends[addr + size] = size

    for block, size, _ in records:
        if size:
            size = -(-size // 512) * 512
            live += size
            peak = max(peak, live)
            at = bisect.bisect_left(free, (size, 0))
            if at < len(free):
                room, addr = free[at]
                drop(addr, room)
                if room > size:
                    add(addr + size, room - size)
            else:
                addr = top
                if top in ends:
                    addr -= ends[top]
                    drop(addr, top - addr)
                top = addr + size
            blocks[block] = (addr, size)
        else:
            addr, size = blocks.pop(block)
            live -= size
            if addr in ends:
                below = ends[addr]
                drop(addr - below, below)
                addr, size = addr - below, size + below
            if addr + size in starts:
                above = starts[addr + size]
                drop(addr + size, above)
                size += above
            add(addr, size)
    return peak, top


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--best-fit", action="store_true", help="print what best fit takes, too")
    parser.add_argument("dir")
    options = parser.parse_args()
    os.makedirs(options.dir, exist_ok=True)
    for program in PROGRAMS:
        p = Program(program.__name__)
        program(p)
        p.free(*list(p.blocks))
        sizes = {block: size for block, size, _ in p.records if size}
        with open(os.path.join(options.dir, program.__name__ + ".trace"), "w", encoding="utf-8") as out:
            for i, (block, size, stream) in enumerate(p.records):
                out.write(f"{5 * i} {'a' if size else 'f'} {block} {sizes[block]} {stream}\n")
        if options.best_fit:
            live, heap = best_fit(p.records)
            print(f"{program.__name__:16} {live / MIB:8.0f} MiB {heap / live:8.4f}", flush=True)


if __name__ == "__main__":
    main()

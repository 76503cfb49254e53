# SPDX-License-Identifier: LGPL-2.1-or-later
"""Trains a small transformer on sequences of changing length, and prints the losses to the bit."""
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

torch.manual_seed(1)
torch.use_deterministic_algorithms(True)
print("backend", torch.cuda.get_allocator_backend())

WORDS, WIDTH = 1000, 256
layer = nn.TransformerEncoderLayer(WIDTH, 8, 4 * WIDTH, dropout=0.0, batch_first=True)
model = nn.Sequential(nn.Embedding(WORDS, WIDTH), nn.TransformerEncoder(layer, 4), nn.Linear(WIDTH, WORDS)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
lengths = torch.Generator().manual_seed(2)

for step in range(30):
    length = int(torch.randint(16, 512, (1,), generator=lengths))
    batch = int(torch.randint(1, 32, (1,), generator=lengths))
    words = torch.randint(0, WORDS, (batch, length), generator=lengths).cuda()
    with sdpa_kernel(SDPBackend.MATH):
        loss = nn.functional.cross_entropy(model(words).view(-1, WORDS), words.view(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex())

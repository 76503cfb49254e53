# SPDX-License-Identifier: LGPL-2.1-or-later
"""Trains a small network of convolutions by cuDNN on images of changing size, and prints the losses to the bit."""
import torch
from torch import nn

torch.manual_seed(1)
torch.use_deterministic_algorithms(True)
torch.backends.cudnn.deterministic = True
torch.backends.cudnn.benchmark = False
print("backend", torch.cuda.get_allocator_backend(), "cuDNN", torch.backends.cudnn.is_available())


def block(before, after):
    return nn.Sequential(nn.Conv2d(before, after, 3, 2, 1), nn.BatchNorm2d(after), nn.ReLU())


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(block(3, 32), block(32, 64), block(64, 128))
        self.last = nn.Linear(128, 10)

    def forward(self, images):
        return self.last(self.blocks(images).mean((2, 3)))


model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
sizes = torch.Generator().manual_seed(2)
for step in range(30):
    side = 8 * int(torch.randint(4, 32, (1,), generator=sizes))
    images = torch.randn((16, 3, side, side), generator=sizes).cuda()
    kinds = torch.randint(0, 10, (16,), generator=sizes).cuda()
    loss = nn.functional.cross_entropy(model(images), kinds)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex())

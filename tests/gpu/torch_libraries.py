# SPDX-License-Identifier: LGPL-2.1-or-later
"""
Programs of test-torch-users.py that use PyTorch by way of a library. One that is not installed fails natively as well,
so that the program is skipped.
"""

import os
import tempfile

# PyTorch and torch.nn, once a program is to run: who starts them needs neither.
torch = nn = None
GIB = 1 << 30


def total(tensor, digits=2):
    return round(float(tensor.double().sum()), digits)


def limit(bytes_of_device):
    torch.cuda.set_per_process_memory_fraction(bytes_of_device / torch.cuda.mem_get_info()[1])


def lightning():
    """Training in bfloat16 with gradients that are added up, validation, and the search for a batch size."""
    import pytorch_lightning as pl
    from pytorch_lightning.tuner import Tuner

    class Model(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.batch_size = 64
            self.layers = nn.Sequential(nn.Linear(64, 4096), nn.ReLU(), nn.Linear(4096, 1))

        def training_step(self, rows):
            return self.layers(rows[0]).float().square().mean()

        def validation_step(self, rows):
            self.log("loss", self.layers(rows[0]).float().square().mean())

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), 1e-3)

        def train_dataloader(self):
            rows = torch.randn(1 << 19, 64, generator=torch.Generator().manual_seed(1))
            return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(rows), self.batch_size)

        val_dataloader = train_dataloader

    pl.seed_everything(0)
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False,
             "enable_model_summary": False, "accelerator": "gpu", "devices": 1}
    trainer = pl.Trainer(max_epochs=1, limit_train_batches=60, limit_val_batches=5, precision="bf16-mixed",
                         accumulate_grad_batches=3, **quiet)
    model = Model()
    trainer.fit(model)
    found = round(float(trainer.validate(model, verbose=False)[0]["loss"]), 3)
    # 16 KiB of activations in each of some layers for a row: 65,536 rows take more than 2 GiB, and 8,192 do not.
    limit(2 * GIB)
    trainer = pl.Trainer(max_epochs=1, max_steps=2, **quiet)
    tuned = Tuner(trainer).scale_batch_size(Model(), mode="power", init_val=1 << 13, steps_per_trial=1, max_trials=8)
    return found, 1 << 13 <= tuned <= 1 << 16


def accelerated():
    """A batch that is halved until it fits, and a model on what devices there are, by what they have free."""
    from accelerate import Accelerator, dispatch_model, infer_auto_device_map
    from accelerate.utils import find_executable_batch_size, get_max_memory
    accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2)
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(512, 512) for _ in range(8)))
    prepared, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.1))
    for step in range(10):
        with accelerator.accumulate(prepared):
            rows = torch.randn(16, 512, device="cuda", generator=torch.Generator("cuda").manual_seed(step))
            accelerator.backward(prepared(rows).square().mean())
            optimizer.step()
            optimizer.zero_grad()
    found = [total(prepared(torch.ones(1, 512, device="cuda")), 1)]
    most = {device: min(size, 3 << 20) if device != "cpu" else size for device, size in get_max_memory().items()}
    model = nn.Sequential(*(nn.Linear(512, 512) for _ in range(8)))
    parts = infer_auto_device_map(model, max_memory=most)
    found += [sorted(map(str, set(parts.values()))), dispatch_model(model, parts)(torch.ones(1, 512)).shape[1]]
    limit(3 * GIB)

    @find_executable_batch_size(starting_batch_size=16)
    def train(batch_size):
        return [torch.ones(GIB // 4, device="cuda") for _ in range(batch_size)] and batch_size

    return found + [train()]


def trainer():
    """Transformers' own loop, with checkpoints of activations and an empty cache every two steps, and a saved model."""
    from transformers import AutoModelForSequenceClassification, BertConfig, BertForSequenceClassification
    from transformers import Trainer, TrainingArguments
    torch.manual_seed(0)
    model = BertForSequenceClassification(BertConfig(vocab_size=500, hidden_size=128, num_hidden_layers=3,
                                                     num_attention_heads=4, intermediate_size=256))
    rows = [{"input_ids": torch.randint(0, 500, (16 + 8 * (i // 8 % 5),), generator=torch.Generator().manual_seed(i)),
             "labels": i % 2} for i in range(160)]

    def collate(rows):
        ids = nn.utils.rnn.pad_sequence([row["input_ids"] for row in rows], batch_first=True)
        return {"input_ids": ids, "labels": torch.tensor([row["labels"] for row in rows])}

    with tempfile.TemporaryDirectory() as where:
        loop = Trainer(model=model, train_dataset=rows, data_collator=collate,
                       args=TrainingArguments(where, per_device_train_batch_size=8, max_steps=20, bf16=True,
                                              gradient_checkpointing=True, torch_empty_cache_steps=2, report_to=[],
                                              save_strategy="no", logging_strategy="no", disable_tqdm=True))
        loop.train()
        loop.save_model(where)
        again = AutoModelForSequenceClassification.from_pretrained(where, device_map="cuda").eval()
    ids = torch.arange(64, device="cuda").reshape(2, 32)
    return total(again(ids).logits, 1), bool(torch.equal(again(ids).logits, model.eval()(ids).logits))


def graphs():
    """Message passing over graphs of several sizes."""
    from torch_geometric.data import Batch, Data
    from torch_geometric.nn import GATConv, GCNConv, global_mean_pool
    torch.manual_seed(0)
    first, second, last = GCNConv(16, 64).cuda(), GATConv(64, 32, heads=4).cuda(), nn.Linear(128, 2).cuda()
    weights = [*first.parameters(), *second.parameters(), *last.parameters()]
    optimizer = torch.optim.Adam(weights, 1e-3)
    for step in range(30):
        generator = torch.Generator().manual_seed(step)
        parts = [Data(x=torch.randn(n, 16, generator=generator), edge_index=torch.randint(0, n, (2, 5 * n),
                                                                                         generator=generator))
                 for n in (50 + 13 * step, 200, 1000 - 20 * step)]
        rows = Batch.from_data_list(parts).to("cuda")
        out = second(first(rows.x, rows.edge_index).relu(), rows.edge_index).relu()
        loss = nn.functional.cross_entropy(last(global_mean_pool(out, rows.batch)), torch.tensor([0, 1, 0]).cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return round(float(loss), 2)


def processes():
    """A Gaussian process that is fitted, and where to look next by it."""
    from botorch.acquisition import qLogExpectedImprovement
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.optim import optimize_acqf
    from gpytorch.mlls import ExactMarginalLogLikelihood
    torch.manual_seed(0)
    x = torch.rand(200, 2, dtype=torch.double, device="cuda")
    model = SingleTaskGP(x, (6 * x).sin().sum(1, keepdim=True))
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    bounds = torch.stack([torch.zeros(2), torch.ones(2)]).double().cuda()
    found, _ = optimize_acqf(qLogExpectedImprovement(model, best_f=1.9), bounds, q=2, num_restarts=2, raw_samples=32)
    return total(model.posterior(x[:5]).mean, 1), list(found.shape)


def equations():
    from torchdiffeq import odeint_adjoint
    torch.manual_seed(0)

    class Flow(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 8))

        def forward(self, _, y):
            return self.layers(y)

    flow = Flow().cuda()
    ends = odeint_adjoint(flow, torch.randn(500, 8, device="cuda"), torch.linspace(0, 1, 5, device="cuda"))
    ends[-1].square().mean().backward()
    return total(ends[-1], 1), total(flow.layers[0].weight.grad, 2)


def detection():
    """Pictures of several sizes, and as many boxes as there are."""
    import torchvision
    torch.manual_seed(0)
    model = torchvision.models.detection.fasterrcnn_mobilenet_v3_large_fpn(weights=None, weights_backbone=None).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    for step in range(8):
        pictures = [torch.rand(3, 200 + 31 * step, 300 - 17 * step, device="cuda") for _ in range(2)]
        boxes = torch.tensor([[10.0, 10.0, 60.0, 90.0], [30.0, 40.0, 120.0, 150.0]], device="cuda")
        losses = model(pictures, [{"boxes": boxes, "labels": torch.tensor([1, 2], device="cuda")}] * 2)
        optimizer.zero_grad()
        sum(losses.values()).backward()
        optimizer.step()
    return bool(torch.isfinite(sum(losses.values()))), len(model.eval()(pictures))


def sound():
    import torchaudio
    wave = torch.sin(torch.arange(160000, device="cuda") / 20).expand(4, -1)
    mel = torchaudio.transforms.MelSpectrogram(16000).cuda()(wave)
    return total(mel, 0), total(torchaudio.functional.resample(wave, 16000, 11025), 1)


def sampled():
    """JAX, each array of which is memory of the driver."""
    import jax
    import numpyro
    from numpyro import distributions
    from numpyro.infer import MCMC, NUTS

    def model(values):
        mean = numpyro.sample("mean", distributions.Normal(0, 10))
        numpyro.sample("values", distributions.Normal(mean, 1), obs=values)

    chain = MCMC(NUTS(model), num_warmup=50, num_samples=50, progress_bar=False)
    chain.run(jax.random.PRNGKey(0), jax.random.normal(jax.random.PRNGKey(1), (10000,)) + 3)
    return round(float(chain.get_samples()["mean"].mean()), 2)


sampled.variables = {"XLA_PYTHON_CLIENT_ALLOCATOR": "platform"}
PROGRAMS = [lightning, accelerated, trainer, graphs, processes, equations, detection, sound, sampled]

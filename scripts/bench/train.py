#!/usr/bin/env python3
"""Trains a model for a few steps and writes what came out: every loss, bit for bit, and how long the steps took.

    train.py gpt      --steps 50 --batch 16  --seed 0 --out gpt.json
    train.py resnet50 --steps 50 --batch 128 --seed 0 --out resnet50.json

Plain PyTorch, on data that every machine has: the text of Python's own standard library. Everything is deterministic, so two runs of
the same command must give the same bits, whatever serves their memory; only the allocator may differ.
"""

import argparse
import hashlib
import json
import os
import statistics
import struct
import sys
import time
import warnings

STARTED = time.perf_counter()
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is deterministic only with this, set before it is loaded

import torch  # noqa: E402
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

IMPORTED = time.perf_counter()
DEVICE = "cuda"


def library_text(megabytes):
    """The standard library's own sources, in a fixed order, as bytes."""
    root = os.path.dirname(os.__file__)
    text, wanted = bytearray(), megabytes * 1_000_000
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(f for f in folders if f not in ("site-packages", "dist-packages", "__pycache__"))
        for name in sorted(files):
            if name.endswith(".py"):
                with open(os.path.join(folder, name), "rb") as file:
                    text += file.read()
            if len(text) >= wanted:
                return bytes(text[:wanted])
    return bytes(text)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm_attention, self.norm_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm_attention(x)).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm_mlp(x))


class GPT(nn.Module):
    """A decoder over bytes."""

    def __init__(self, layers, width, heads, context):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(256, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 256, bias=False)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def gpt(args):
    """Model, optimizer, batches and loss of a language model on the library's text."""
    with torch.device(DEVICE):
        model = GPT(args.layers, args.width, args.heads, args.context)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, **({"fused": True} if args.fused else {}))
    text = torch.frombuffer(bytearray(library_text(args.megabytes)), dtype=torch.uint8)
    random = torch.Generator().manual_seed(args.seed)

    def batch():
        starts = torch.randint(len(text) - args.context - 1, (args.batch,), generator=random).tolist()
        rows = torch.stack([text[s : s + args.context + 1] for s in starts]).long().pin_memory()
        return rows.to(DEVICE, non_blocking=True)

    def loss(rows):
        logits = model(rows[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1).float(), rows[:, 1:].flatten())

    return model, optimizer, batch, loss


def resnet50(args):
    """Model, optimizer, batches and loss of an image classifier on pictures made from the library's bytes."""
    import torchvision

    with torch.device(DEVICE):
        model = torchvision.models.resnet50()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4, **({"fused": True} if args.fused else {}))
    count, side, patch = 512, 224, 28
    text = torch.frombuffer(bytearray(library_text(args.megabytes)), dtype=torch.uint8)
    pixels = text[: count * 3 * patch * patch]
    patches = pixels.view(count, 3, patch, patch).float()
    images = F.interpolate(patches, size=(side, side), mode="bilinear").round().to(torch.uint8)
    labels = (pixels.view(count, -1).long().sum(1) * 2654435761 >> 8) % 1000
    random = torch.Generator().manual_seed(args.seed)
    mean, std = (torch.tensor(v, device=DEVICE).view(1, 3, 1, 1) for v in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))

    def batch():
        chosen = torch.randint(count, (args.batch,), generator=random)
        x, y = images[chosen].pin_memory(), labels[chosen].pin_memory()
        return x.to(DEVICE, non_blocking=True), y.to(DEVICE, non_blocking=True)

    def loss(pair):
        x, y = pair
        return F.cross_entropy(model((x.float() / 255 - mean) / std), y)

    return model, optimizer, batch, loss


def be_deterministic(model):
    # ResNet's max pooling has no backward that PyTorch vouches for; in this layout it adds nothing atomically, so its warning is let pass.
    torch.use_deterministic_algorithms(True, warn_only=model == "resnet50")
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    torch.backends.cuda.enable_cudnn_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)


def bits(losses):
    return [struct.pack(">f", x).hex() for x in losses]


def fingerprint(model):
    """SHA-256 over the bytes of every parameter and buffer."""
    digest = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes() if tensor.dim() else str(tensor.item()).encode())
    return digest.hexdigest()


def memory(result):
    """Peaks as PyTorch counts them; without its cache it counts nothing."""
    for name, read in (("max_memory_allocated", torch.cuda.max_memory_allocated), ("max_memory_reserved", torch.cuda.max_memory_reserved)):
        try:
            result[name] = read()
        except Exception as error:  # some backends answer with an error
            result[name] = 0
            result["memory_error"] = str(error)


def train(args, result):
    torch.manual_seed(args.seed)
    be_deterministic(args.model)
    result["device"] = torch.cuda.get_device_name()
    model, optimizer, batch, loss_of = {"gpt": gpt, "resnet50": resnet50}[args.model](args)
    result["parameters"] = sum(p.numel() for p in model.parameters())
    losses = torch.zeros(args.steps, device=DEVICE)
    events = [torch.cuda.Event(enable_timing=True) for _ in range(args.steps + 1)]
    walls = []

    def step(index):
        optimizer.zero_grad(set_to_none=True)
        for _ in range(args.accumulate):
            with torch.autocast(DEVICE, torch.bfloat16):
                loss = loss_of(batch()) / args.accumulate
            loss.backward()
            losses[index] += loss.detach()
        if args.model == "gpt":
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if args.sync:
            losses[index].item()

    torch.cuda.synchronize()
    begun = time.perf_counter()
    result["seconds_setup"] = begun - IMPORTED
    events[0].record()
    done = 0
    for index in range(args.steps):
        if index == args.warmup:
            torch.cuda.synchronize()
            warm = time.perf_counter()
        step(index)
        events[index + 1].record()
        walls.append(time.perf_counter())
        done += 1
        if args.limit_seconds and walls[-1] - begun > args.limit_seconds:
            break
    torch.cuda.synchronize()
    ended = time.perf_counter()

    result["steps"] = done
    result["losses"] = bits(losses[:done].tolist())
    result["loss_first"], result["loss_last"] = (losses[i].item() for i in (0, done - 1))
    result["step_ms"] = [events[i].elapsed_time(events[i + 1]) for i in range(done)]
    result["host_ms"] = [1e3 * (b - a) for a, b in zip([begun] + walls, walls)]
    measured = result["step_ms"][args.warmup :]
    if measured:
        result["median_ms"], result["mean_ms"], result["min_ms"] = statistics.median(measured), statistics.fmean(measured), min(measured)
        result["wall_ms"] = 1e3 * (ended - warm) / len(measured)
    memory(result)
    result["sha256"] = fingerprint(model)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", choices=("gpt", "resnet50"))
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--warmup", type=int, default=5, help="first steps left out of the times (default 5)")
    parser.add_argument("--batch", type=int, help="default 16 for gpt, 128 for resnet50")
    parser.add_argument("--accumulate", type=int, default=1, help="batches per optimizer step")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", required=True, help="JSON file for the results")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--attention", choices=("flash", "math"), default="flash", help="math keeps every score: more memory, no special kernel")
    parser.add_argument("--fused", action="store_true", help="the fused optimizer instead of the default")
    parser.add_argument("--sync", action="store_true", help="read the loss after every step")
    parser.add_argument("--megabytes", type=int, default=8, help="text to read (default 8)")
    parser.add_argument("--limit-seconds", type=float, default=0, help="stop after the step that passes this time")
    args = parser.parse_args()
    args.batch = args.batch or {"gpt": 16, "resnet50": 128}[args.model]

    result = {"model": args.model, "arguments": vars(args), "torch": torch.__version__, "seconds_import": IMPORTED - STARTED}
    kernels = SDPBackend.FLASH_ATTENTION if args.attention == "flash" else SDPBackend.MATH
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        try:
            with sdpa_kernel(kernels):
                train(args, result)
        except Exception as error:
            result["error"] = f"{type(error).__name__}: {error}"
            memory(result)
    result["warnings"] = sorted({str(w.message).split("\n")[0] for w in caught})
    result["seconds_total"] = time.perf_counter() - STARTED
    with open(args.out, "w") as file:
        json.dump(result, file, indent=1)
    if "error" in result:
        sys.exit(result["error"])
    print(
        f"{args.model} batch {args.batch} seed {args.seed}: {result['steps']} steps, "
        + (f"median {result['median_ms']:.2f} mean {result['mean_ms']:.2f} min {result['min_ms']:.2f} ms, " if "median_ms" in result else "")
        + f"loss {result['loss_first']:.6f} -> {result['loss_last']:.6f}, allocated {result['max_memory_allocated'] / 2**20:.0f} "
        f"reserved {result['max_memory_reserved'] / 2**20:.0f} MiB, parameters {result['sha256'][:16]}",
        flush=True,
    )


if __name__ == "__main__":
    main()

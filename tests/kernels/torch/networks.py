"""Two small networks in eager PyTorch, with repops' or PyTorch's arithmetic: `python networks.py cnn repops`."""

import hashlib
import math
import sys
from types import SimpleNamespace

import torch
import torch.nn.functional as tf
from torch import nn

STEPS = 20


def flavour(name):
    """Return functions and optimizers under the same names, of repops or of PyTorch."""
    if name == "repops":
        import repops.torch as rt

        return SimpleNamespace(f=rt.functional, add=rt.add, **vars(rt.optim))
    return SimpleNamespace(f=tf, add=torch.add, **vars(torch.optim))


def draw(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def make(device, **shapes):
    """Return parameters, scaled by their fan-in."""
    return {
        name: nn.Parameter((draw(*shape, seed=i) / math.sqrt(math.prod(shape[1:]))).to(device))
        for i, (name, shape) in enumerate(shapes.items())
    }


class Transformer:
    """One block like GPT-2's on synthetic text; tokens [8, 16], vocabulary 40, width 32, 4 heads."""

    def __init__(self, t, device="cpu"):
        self.t = t
        self.p = make(
            device,
            tokens=(40, 32),
            places=(16, 32),
            n1=(32,),
            n2=(32,),
            n3=(32,),
            qkv=(96, 32),
            out=(32, 32),
            up=(128, 32),
            down=(32, 128),
        )
        self.optimizer = t.AdamW(self.p.values(), lr=1e-2, weight_decay=0.1)
        text = draw(8, 17, seed=90).mul(12).long().to(device) % 40
        self.x, self.y = text[:, :-1].contiguous(), text[:, 1:].contiguous()

    def norm(self, x, weight):
        return self.t.f.layer_norm(x, (32,), weight)

    def loss(self):
        f, p, add = self.t.f, self.p, self.t.add
        x = add(f.embedding(self.x, p["tokens"]), p["places"])
        q, k, v = f.linear(self.norm(x, p["n1"]), p["qkv"]).reshape(8, 16, 3, 4, 8).permute(2, 0, 3, 1, 4)
        seen = f.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = add(x, f.linear(seen.transpose(1, 2).reshape(8, 16, 32), p["out"]))
        x = add(x, f.linear(f.gelu(f.linear(self.norm(x, p["n2"]), p["up"])), p["down"]))
        logits = f.linear(self.norm(x, p["n3"]), p["tokens"])
        return f.cross_entropy(logits.reshape(-1, 40), self.y.reshape(-1))


class Cnn:
    """Convolutions, batch and group norms and pooling on synthetic images [16, 3, 16, 16] of 5 classes."""

    def __init__(self, t, device="cpu"):
        self.t = t
        self.p = make(
            device,
            c1=(16, 3, 3, 3),
            b1=(16,),
            n1=(16,),
            s1=(16,),
            c2=(32, 8, 3, 3),
            n2=(32,),
            s2=(32,),
            head=(5, 128),
            bias=(5,),
        )
        self.mean, self.variance = torch.zeros(16, device=device), torch.ones(16, device=device)
        self.optimizer = t.SGD(self.p.values(), lr=0.05, momentum=0.9, weight_decay=1e-3)
        self.x, self.y = draw(16, 3, 16, 16, seed=91).to(device), torch.arange(16, device=device) % 5

    def loss(self):
        f, p = self.t.f, self.p
        x = f.conv2d(self.x, p["c1"], p["b1"], padding=1)
        x = f.batch_norm(x, self.mean, self.variance, p["n1"], p["s1"], training=True)
        x = f.max_pool2d(f.relu(x), 2)
        x = f.group_norm(f.conv2d(x, p["c2"], stride=2, padding=1, groups=2), 4, p["n2"], p["s2"])
        x = f.avg_pool2d(f.silu(x), 2)
        return f.cross_entropy(f.linear(x.reshape(16, -1), p["head"], p["bias"]), self.y)


NETWORKS = {"transformer": Transformer, "cnn": Cnn}


def train(name, kind, device="cpu"):
    """Return the losses and the network."""
    network = NETWORKS[name](flavour(kind), device)
    losses = []
    for _ in range(STEPS):
        network.optimizer.zero_grad()
        loss = network.loss()
        loss.backward()
        network.optimizer.step()
        losses.append(loss.item())
    return losses, network


def digest(network):
    tensors = [
        *network.p.values(),
        *(x for state in network.optimizer.state.values() for x in state.values()),
    ]
    total = hashlib.sha256()
    for tensor in tensors:
        total.update(tensor.detach().cpu().numpy().tobytes())
    return total.hexdigest()


if __name__ == "__main__":
    losses, network = train(*sys.argv[1:])
    print(*(loss.hex() for loss in losses), digest(network))

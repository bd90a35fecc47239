"""Nets that read tokens, for tests/train: an encoder and two decoders of the families that people use, in small, with the
masks, positions and heads as the usual libraries write them. Sizes are odd on purpose.

Written from the papers: BERT (Devlin 2018), sentence embeddings by mean pooling (Reimers 2019), GPT-2 (Radford 2019), Llama
(Touvron 2023) with rotary embedding (Su 2021) and grouped queries (Ainslie 2023).
"""
import math

import torch
from torch import nn
from torch.nn import functional as F

LOWEST = torch.finfo(torch.float32).min


class EncoderLayer(nn.Module):
    def __init__(self, width, heads, inner, drop):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out, self.norm1 = nn.Linear(width, width), nn.LayerNorm(width, eps=1e-12)
        self.up, self.down, self.norm2 = nn.Linear(width, inner), nn.Linear(inner, width), nn.LayerNorm(width, eps=1e-12)
        self.drop1, self.drop2, self.drop3 = drop(), drop(), drop()

    def split(self, x):
        return x.view(x.size()[:-1] + (self.heads, -1)).permute(0, 2, 1, 3)

    def forward(self, x, bias):
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.size(-1)) + bias
        y = torch.matmul(self.drop1(scores.softmax(-1)), v).permute(0, 2, 1, 3).contiguous()
        x = self.norm1(self.drop2(self.out(y.view(x.size()))) + x)
        return self.norm2(self.drop3(self.down(F.gelu(self.up(x)))) + x)


class Encoder(nn.Module):
    """Token, position and type embeddings, a mask of what is no padding, and a head on the first token (BERT)."""

    def __init__(self, tokens=61, width=27, heads=3, inner=50, positions=16, classes=5, drop=nn.Identity):
        super().__init__()
        self.tokens, self.positions, self.types = (nn.Embedding(n, width) for n in (tokens, positions, 2))
        self.norm, self.drop = nn.LayerNorm(width, eps=1e-12), drop()
        self.layers = nn.ModuleList(EncoderLayer(width, heads, inner, drop) for _ in range(2))
        self.pool, self.classifier = nn.Linear(width, width), nn.Linear(width, classes)
        self.register_buffer("position_ids", torch.arange(positions).expand((1, -1)))

    def encode(self, ids, mask, types):
        x = self.tokens(ids) + self.types(types) + self.positions(self.position_ids[:, :ids.size(1)])
        x = self.drop(self.norm(x))
        bias = (1.0 - mask[:, None, None, :].to(x.dtype)) * LOWEST
        for layer in self.layers:
            x = layer(x, bias)
        return x

    def forward(self, ids, mask, types):
        return self.classifier(torch.tanh(self.pool(self.encode(ids, mask, types)[:, 0])))


class SentenceEncoder(Encoder):
    """The mean of what is no padding, of length 1 (MiniLM and its kin)."""

    def forward(self, ids, mask, types):
        x = self.encode(ids, mask, types)
        keep = mask.unsqueeze(-1).expand(x.size()).to(x.dtype)
        mean = (x * keep).sum(1) / torch.clamp(keep.sum(1), min=1e-9)
        return self.classifier(torch.tanh(self.pool(F.normalize(mean, p=2.0, dim=1))))


class Conv1D(nn.Module):
    """A linear layer whose weight is [in, out], as GPT-2 has it."""

    def __init__(self, cin, cout):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(cin, cout) * 0.2), nn.Parameter(torch.randn(cout) * 0.02)

    def forward(self, x):
        y = torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight)
        return y.view(x.size()[:-1] + (self.weight.size(1),))


class DecoderLayer(nn.Module):
    def __init__(self, width, heads, positions):
        super().__init__()
        self.heads, self.ln_1, self.ln_2 = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = Conv1D(width, 3 * width), Conv1D(width, width)
        self.c_fc, self.c_out = Conv1D(width, 4 * width), Conv1D(4 * width, width)
        self.register_buffer("past", torch.tril(torch.ones((positions, positions), dtype=torch.uint8))[None, None])

    def split(self, x):
        return x.view(x.size()[:-1] + (self.heads, x.size(-1) // self.heads)).permute(0, 2, 1, 3)

    def forward(self, x):
        q, k, v = (self.split(part) for part in self.c_attn(self.ln_1(x)).split(x.size(-1), dim=2))
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(v.size(-1))
        queries, keys = q.size(-2), k.size(-2)
        past = self.past[:, :, keys - queries:keys, :keys].to(torch.bool)
        scores = torch.where(past, scores, torch.full([], LOWEST, dtype=scores.dtype))
        y = torch.matmul(F.softmax(scores, dim=-1), v).permute(0, 2, 1, 3).contiguous()
        x = x + self.c_proj(y.view(x.size()))
        h = self.c_fc(self.ln_2(x))
        h = 0.5 * h * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (h + 0.044715 * torch.pow(h, 3.0))))
        return x + self.c_out(h)


class Decoder(nn.Module):
    """Learned positions, norms in front, and an embedding that is the head's weight as well (GPT-2)."""

    def __init__(self, tokens=53, width=21, heads=3, positions=17):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(tokens, width), nn.Embedding(positions, width)
        self.h = nn.ModuleList(DecoderLayer(width, heads, positions) for _ in range(2))
        self.ln_f, self.lm_head = nn.LayerNorm(width), nn.Linear(width, tokens, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, ids):
        place = torch.arange(0, ids.size(-1), dtype=torch.long).unsqueeze(0).view(-1, ids.size(-1))
        x = self.wte(ids) + self.wpe(place)
        for layer in self.h:
            x = layer(x)
        return self.lm_head(self.ln_f(x))


class RmsNorm(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))


def half_turned(x):
    return torch.cat((-x[..., x.shape[-1] // 2:], x[..., :x.shape[-1] // 2]), dim=-1)


def repeated(x, times):
    n, heads, steps, size = x.shape
    return x[:, :, None, :, :].expand(n, heads, times, steps, size).reshape(n, heads * times, steps, size)


class RotaryLayer(nn.Module):
    def __init__(self, width, heads, groups, inner):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.norm1, self.norm2 = RmsNorm(width), RmsNorm(width)
        self.q_proj, self.o_proj = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k_proj, self.v_proj = (nn.Linear(width, groups * self.size, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x, cos, sin, mask):
        n, steps, _ = x.shape
        h = self.norm1(x)
        q = self.q_proj(h).view(n, steps, self.heads, self.size).transpose(1, 2)
        k = self.k_proj(h).view(n, steps, self.groups, self.size).transpose(1, 2)
        v = self.v_proj(h).view(n, steps, self.groups, self.size).transpose(1, 2)
        q, k = q * cos + half_turned(q) * sin, k * cos + half_turned(k) * sin
        k, v = repeated(k, self.heads // self.groups), repeated(v, self.heads // self.groups)
        scores = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.size) + mask
        y = torch.matmul(F.softmax(scores, dim=-1), v).transpose(1, 2).contiguous().reshape(n, steps, -1)
        x = x + self.o_proj(y)
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class RotaryDecoder(nn.Module):
    """Rotary positions, RMS norm, six heads over two of keys and values, a gated inner layer, padding in front (Llama)."""

    def __init__(self, tokens=47, width=36, heads=6, groups=2, inner=29):
        super().__init__()
        self.embed, self.norm = nn.Embedding(tokens, width), RmsNorm(width)
        self.layers = nn.ModuleList(RotaryLayer(width, heads, groups, inner) for _ in range(2))
        self.head = nn.Linear(width, tokens, bias=False)
        size = width // heads
        self.register_buffer("inv_freq", 1.0 / (100.0 ** (torch.arange(0, size, 2) / size)))

    def forward(self, ids, mask):
        n, steps = ids.shape
        x = self.embed(ids)
        place = (mask.cumsum(-1) - 1).clamp(min=0)
        angles = place[:, :, None].to(x.dtype) * self.inv_freq[None, None, :]
        angles = torch.cat((angles, angles), -1)
        cos, sin = angles.cos().unsqueeze(1), angles.sin().unsqueeze(1)
        ahead = torch.triu(torch.full((steps, steps), -math.inf, dtype=x.dtype), diagonal=1)
        bias = ahead[None, None].masked_fill(mask[:, None, None, :] == 0, LOWEST)
        for layer in self.layers:
            x = layer(x, cos, sin, bias)
        return self.head(self.norm(x))

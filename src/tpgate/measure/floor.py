"""The least bytes that tensor parallelism must move: from a model's config.json to bytes a GPU, token and direction.

A tensor-parallel decoder layer ends its attention and its feed-forward part (dense, or all experts together) with one
all-reduce of the hidden state each; multi-head latent attention changes what a rank computes, not what it reduces.
The vocabulary-parallel embedding adds one, and the sampled row's logits are gathered from the ranks' slices.

With n ranks, S = hidden size x bytes of an activation, N = 2 x layers + 1 collectives a token:

* ring, or reduce-scatter and all-gather, or two-shot: 2 (n - 1) / n x S x N, sent and received alike. It is the least
  of any all-reduce (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
  2009), and the factor behind nccl-tests' bus bandwidth.
* one-shot peer-to-peer: every rank sends its S to every other, (n - 1) x S x N.
* through the host (no peer access): a GPU's link carries what the ring carries, and host memory sees each byte twice.
* NCCL's LL protocol stores a 4-byte flag beside 4 bytes of data, x 2; LL128 one flag word in 16, x 16/15.
* the logits' all-gather: (n - 1) / n x vocabulary x bytes a sampled row.

The bytes per token do not depend on the batch, unless the server pads it (CUDA graphs are captured for some sizes
only): then every real token carries its share of the padding. The size of one message does, and latency follows it.
Packet headers are not in it; expert parallelism and attention data parallelism replace these collectives by others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

COLLECTIVES_A_LAYER = 2
LL = 2.0
LL128 = 16 / 15
_BYTES = {"float32": 4, "float": 4, "bfloat16": 2, "float16": 2, "half": 2}


@dataclass(frozen=True, slots=True)
class Shape:
    """What of a model decides its traffic.

    Attributes:
        hidden: Width of the hidden state.
        layers: Decoder layers.
        vocabulary: Entries of the vocabulary; None where the config does not say.
        activation_bytes: Bytes of one activation.
        kind: ``dense``, ``MoE``, ``MLA`` or ``MoE, MLA``; for people.
    """

    hidden: int
    layers: int
    vocabulary: int | None
    activation_bytes: int
    kind: str


@dataclass(frozen=True, slots=True)
class Floor:
    """Least bytes per output token that one GPU sends, and as many that it receives.

    Attributes:
        shape: The model.
        ranks: Tensor-parallel ranks, n.
        batch: Sequences decoded together.
        collectives: All-reduces a token, N.
        message_bytes: Size of one all-reduce at this batch, S x (padded) batch.
        ring: Bytes per token of all all-reduces by ring or two-shot.
        one_shot: The same by one-shot peer-to-peer.
        logits: Bytes per token of the logits' gather.
    """

    shape: Shape
    ranks: int
    batch: float
    collectives: int
    message_bytes: float
    ring: float
    one_shot: float
    logits: float

    @property
    def total(self) -> float:
        """The floor: ring plus logits, in B per token and direction."""
        return self.ring + self.logits

    @property
    def host_memory(self) -> float:
        """Bytes per token that cross host memory, of all ranks, where the path goes through the host."""
        return 2 * self.ranks * self.total

    def paths(self) -> dict[str, float]:
        """Return bytes per token, GPU and direction for every path and protocol, the logits included."""
        return {
            "ring": self.ring + self.logits,
            "ring, LL128": self.ring * LL128 + self.logits * LL128,
            "ring, LL": self.ring * LL + self.logits * LL,
            "one-shot": self.one_shot + self.logits,
            "through host": self.ring + self.logits,
            "through host, LL": self.ring * LL + self.logits * LL,
        }

    def nearest(self, measured: float) -> str:
        """Return the path whose bytes lie nearest to a measured figure by ratio; equal ones are all named."""
        ratios = {name: max(measured / size, size / max(measured, 1e-9)) for name, size in self.paths().items()}
        least = min(ratios.values())
        return " or ".join(name for name, ratio in ratios.items() if ratio <= least * 1.02)


def shape_of(config: Mapping[str, Any]) -> Shape | str:
    """Return what decides a model's traffic, or which field of its config.json is missing or wrong."""
    block = next(
        (
            inner
            for name in ("text_config", "language_config", "llm_config")
            if isinstance(inner := config.get(name), dict)
        ),
        config,
    )
    hidden = _first(block, ("hidden_size", "n_embd", "d_model"))
    layers = _first(block, ("num_hidden_layers", "n_layer", "num_layers"))
    if hidden is None or layers is None:
        return "config.json gives no hidden_size" if hidden is None else "config.json gives no num_hidden_layers"
    word = block.get("torch_dtype") or block.get("dtype") or config.get("torch_dtype") or config.get("dtype")
    name = str(word or "bfloat16").removeprefix("torch.")
    if name not in _BYTES:
        return f"config.json gives torch_dtype {name!r}, whose activations are not known here"
    experts = _first(block, ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"))
    kinds = ["MoE"] if experts is not None and experts > 1 else []
    if _first(block, ("kv_lora_rank",)) is not None:
        kinds.append("MLA")
    vocabulary = _first(block, ("vocab_size",)) or _first(config, ("vocab_size",))
    return Shape(hidden, layers, vocabulary, _BYTES[name], ", ".join(kinds) or "dense")


def all_reduce_floor(
    config: Mapping[str, Any], tensor_parallel: int, batch: float = 1.0, *, captured: Sequence[int] = ()
) -> Floor | str:
    """Return the floor of a model on ``tensor_parallel`` ranks, or why it cannot be told.

    Args:
        config: Content of config.json.
        tensor_parallel: Ranks; one rank has no collectives, which is a reason and not 0.
        batch: Sequences decoded together, on average.
        captured: Batch sizes of the CUDA graphs, where padding to the next one is to be counted; empty counts none.
    """
    if tensor_parallel < 2:
        return "one rank has no all-reduce"
    shape = shape_of(config)
    if isinstance(shape, str):
        return shape
    if batch <= 0:
        return f"batch is {batch}"
    padded = min((size for size in captured if size >= batch), default=batch)
    factor = padded / batch
    ranks, step = tensor_parallel, shape.hidden * shape.activation_bytes
    collectives = COLLECTIVES_A_LAYER * shape.layers + 1
    row = (shape.vocabulary or 0) * shape.activation_bytes
    return Floor(
        shape=shape,
        ranks=ranks,
        batch=batch,
        collectives=collectives,
        message_bytes=step * padded,
        ring=2 * (ranks - 1) / ranks * step * collectives * factor,
        one_shot=(ranks - 1) * step * collectives * factor,
        logits=(ranks - 1) / ranks * row * factor,
    )


def _first(block: Mapping[str, Any], names: Sequence[str]) -> int | None:
    for name in names:
        value = block.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None

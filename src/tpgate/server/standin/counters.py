"""The server's own counters, as SGLang's /metrics shows them."""

from __future__ import annotations

from dataclasses import dataclass

from tpgate.server.standin.settings import Settings


@dataclass(slots=True)
class Counters:
    """Totals since the start, and gauges of now.

    ``generation_tokens`` and ``prompt_tokens`` move when a request finishes, ``decode_tokens`` and ``prefill_tokens``
    with every step: the first token of a request comes out of its prefill and is not a decoded one.
    """

    prompt_tokens: int = 0
    generation_tokens: int = 0
    requests: int = 0
    aborted: int = 0
    cached_tokens: int = 0
    decode_tokens: int = 0
    prefill_tokens: int = 0
    running: int = 0
    queued: int = 0
    throughput: float = 0.0

    def render(self, settings: Settings) -> str:
        """Return the text of /metrics."""
        escapes = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
        model = settings.served_model_name.translate(escapes)
        whole = f'engine_type="unified",model_name="{model}"'
        rank = f'{whole},moe_ep_rank="0",pp_rank="0",tp_rank="0"'
        factor = 1 + settings.faults.counter_off

        def grown(value: int) -> float:
            return float(round(value * factor))

        rows = (
            ("num_running_reqs", "gauge", rank, float(self.running)),
            ("num_queue_reqs", "gauge", rank, float(self.queued)),
            ("gen_throughput", "gauge", rank, self.throughput),
            ("prompt_tokens_total", "counter", whole, float(self.prompt_tokens)),
            ("generation_tokens_total", "counter", whole, grown(self.generation_tokens)),
            ("num_requests_total", "counter", whole, float(self.requests)),
            ("num_aborted_requests_total", "counter", whole, float(self.aborted)),
            ("cached_tokens_total", "counter", f'cache_source="device",{whole}', float(self.cached_tokens)),
            ("realtime_tokens_total", "counter", _mode(rank, "prefill_compute"), float(self.prefill_tokens)),
            ("realtime_tokens_total", "counter", _mode(rank, "prefill_cache"), float(self.cached_tokens)),
            ("realtime_tokens_total", "counter", _mode(rank, "decode"), grown(self.decode_tokens)),
        )
        lines = []
        named = ""
        for name, kind, labels, value in rows:
            if name != named:
                lines += [f"# HELP sglang:{name} {name}.", f"# TYPE sglang:{name} {kind}"]
                named = name
            lines.append(f"sglang:{name}{{{labels}}} {value}")
        return "\n".join(lines) + "\n"


def _mode(labels: str, mode: str) -> str:
    head, _, tail = labels.partition(",")
    return f'{head},mode="{mode}",{tail}'

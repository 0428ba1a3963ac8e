"""One paragraph a cell, from measured facts: what bounds it, what does not, each with its evidence. Pure.

The facts that do not come from a trace are handed in as plain numbers; one that is not known is None and is not
spoken of.
"""

from __future__ import annotations

from dataclasses import dataclass

from tpgate.trace.diff import mix_shifts
from tpgate.trace.summary import Summary
from tpgate.trace.words import amount, percent

_IDLE_BOUND = 0.25
_EXPOSED_BOUND = 0.15
_LINK_NEAR = 0.5
_CLIENT_BUSY = 0.85
_EARLY = 0.8
_LITTLE = 0.05


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a cell beside its trace.

    Attributes:
        pcie_bytes_per_second: Larger of the two directions, over the steady window.
        pcie_ceiling: Link generation x width, in B/s, as read under load.
        pcie_link: The link in words, such as ``Gen5 x16``.
        early_tokens_per_second: Output throughput before the steady window.
        steady_tokens_per_second: Output throughput in the steady window.
        client_cpu_share: CPU share of the busiest client process.
        prefill_share: Share of engine steps in the steady window that were prefill, or None.
    """

    pcie_bytes_per_second: float | None = None
    pcie_ceiling: float | None = None
    pcie_link: str = "the link"
    early_tokens_per_second: float | None = None
    steady_tokens_per_second: float | None = None
    client_cpu_share: float | None = None
    prefill_share: float | None = None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What bounds a cell.

    Attributes:
        bound: ``launch``, ``communication``, ``client``, ``prefill``, ``compute: <category>``.
        sentences: Evidence, what bounds it first; what does not bound it; what only looks like a fault.
    """

    bound: str
    sentences: tuple[str, ...]

    def __str__(self) -> str:
        return ". ".join(self.sentences) + "."


def diagnose(now: Summary, facts: Facts | None = None, before: Summary | None = None) -> Diagnosis:
    """Return what bounds a cell: the first of client, launch, communication and prefill that holds, else compute.

    Args:
        now: The capture.
        facts: What the client and the telemetry saw.
        before: The baseline's capture, for what changed in the mix.
    """
    facts = facts or Facts()
    bound, said = _bound(now, facts)
    said += _not_communication(now, facts) if bound != "communication" else []
    said += _ramp(facts)
    if before is not None:
        both = (before.tokens, now.tokens)
        units = (both[0], both[1]) if both[0] and both[1] else (before.steps or 1.0, now.steps or 1.0)
        said += [str(shift) for shift in mix_shifts(before, now, float(units[0]), float(units[1]))]
    return Diagnosis(bound, tuple(said))


def _bound(now: Summary, facts: Facts) -> tuple[str, list[str]]:
    idle = 1 - now.busy_share
    exposed = now.exposed_s / now.span_s if now.span_s else 0.0
    used = _link_use(facts)
    if facts.client_cpu_share is not None and facts.client_cpu_share > _CLIENT_BUSY:
        return "client", [f"client-bound: the load client used {percent(facts.client_cpu_share)} of a core"]
    if idle > _IDLE_BOUND and now.idle.launch_bound_s > 0.5 * now.idle.seconds:
        graphs = f"{percent(now.graph_share)} of kernels out of CUDA graphs" if now.graph_share else "no CUDA graphs"
        return "launch", [
            f"launch-bound: the GPU is idle {percent(idle)} of the time, and "
            f"{percent(now.idle.launch_bound_s / now.idle.seconds)} of that before kernels that the host launched "
            f"too late ({now.idle.gaps} gaps, median {amount(now.idle.median_s)}; {graphs})"
        ]
    if exposed > _EXPOSED_BOUND:
        return "communication", _communication(now, exposed, used, facts)
    if facts.prefill_share is not None and facts.prefill_share > 0.5:
        return "prefill", [f"prefill-bound: {percent(facts.prefill_share)} of engine steps were prefill"]
    name, part = max(now.categories.items(), key=lambda row: row[1].seconds)
    sentence = f"compute-bound in {name.replace('_', ' ')}: {percent(part.share)} of busy time"
    if part.per_token_s is not None:
        sentence += f", {amount(part.per_token_s)} a token"
    said = [f"{sentence}; the GPU is busy {percent(now.busy_share)} of the time"]
    if idle > _IDLE_BOUND:
        said.append(f"the GPU is idle {percent(idle)} of the time for a cause that the trace does not show")
    return f"compute: {name}", said


def _communication(now: Summary, exposed: float, used: float | None, facts: Facts) -> list[str]:
    said = [
        f"communication-bound: {percent(exposed)} of the time a communication kernel runs and no compute kernel "
        f"(communication is {percent(now.categories['communication'].share)} of busy time)"
    ]
    found = now.collectives
    if found is not None and found.matched and found.wait_share > 0.5:
        who = f"; {found.straggler} comes last to most collectives" if found.straggler else ""
        said.append(f"{percent(found.wait_share)} of it is waiting for a late rank, not transfer{who}")
    if used is not None:
        near = "near its ceiling: bandwidth" if used > _LINK_NEAR else "far from its ceiling: latency, not bandwidth"
        said.append(f"PCIe is at {percent(used)} of {facts.pcie_link}, {near}")
    return said


def _not_communication(now: Summary, facts: Facts) -> list[str]:
    share = now.categories["communication"].share
    used = _link_use(facts)
    if share > _LITTLE or (len(now.ranks) == 1 and used is None):
        return []
    evidence = [f"communication is {percent(share)} of busy time"]
    if used is not None:
        evidence.insert(0, f"PCIe is at {percent(used)} of {facts.pcie_link}")
        if used > _LINK_NEAR:
            return [f"communication kernels are few, but {evidence[0]}: something else uses the link"]
    return [f"not communication-bound: {', '.join(evidence)}"]


def _ramp(facts: Facts) -> list[str]:
    early, steady = facts.early_tokens_per_second, facts.steady_tokens_per_second
    if early is None or not steady or early > _EARLY * steady:
        return []
    return [
        f"early throughput ({early:.0f} tok/s) below the steady one ({steady:.0f} tok/s) is the prefill ramp, "
        "not the decode speed"
    ]


def _link_use(facts: Facts) -> float | None:
    if facts.pcie_bytes_per_second is None or not facts.pcie_ceiling:
        return None
    return facts.pcie_bytes_per_second / facts.pcie_ceiling

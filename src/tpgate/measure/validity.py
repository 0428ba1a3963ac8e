"""Whether a run may be judged: the checks that come before any comparison of speed.

Each check returns doubts; a fatal one makes the run VOID. What failed is said with figures and with advice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tpgate.load.records import LoadResult, RequestRecord
from tpgate.measure.result import Doubt
from tpgate.specs import LoadSpec

COUNTER_TOLERANCE = 0.005
"""Largest relative difference between the client's token sum and the server's counter."""
DRIFT_NOTE = 1.15
DRIFT_FATAL = 1.5
"""Ratio of median TPOT between the first and last third of a run at which it is noted, and void."""


@dataclass(frozen=True, slots=True)
class ServerCounts:
    """What the server itself counted over a cell.

    Attributes:
        generated_tokens: Increase of ``sglang:generation_tokens_total``; None where the server does not say.
        decoded_tokens: Increase of ``sglang:realtime_tokens_total{mode="decode"}``; None where it does not say.
        cached_tokens: Increase of ``sglang:cached_tokens_total``; None where it does not say.
    """

    generated_tokens: int | None = None
    decoded_tokens: int | None = None
    cached_tokens: int | None = None


def request_doubts(result: LoadResult, load: LoadSpec) -> list[Doubt]:
    """Return doubts about the requests: stalls, missing and failed ones, wrong lengths, prefix-cache hits."""
    doubts = []
    records = result.records
    if result.stalled:
        doubts.append(Doubt(check="stalled", reason=result.stalled, advice="read the server's log beside the results"))
    wanted = load.warmup_requests + load.requests
    if len(records) != wanted:
        reason = f"{len(records)} requests were recorded, {wanted} were to be made"
        doubts.append(Doubt(check="request_count", reason=reason, advice="see why the load ended early"))
    failed = [r for r in records if not r.ok]
    if failed:
        kinds = ", ".join(f"{count} x {kind}" for kind, count in Counter(r.outcome for r in failed).most_common(3))
        reason = f"{len(failed)} of {len(records)} requests failed: {kinds}"
        doubts.append(Doubt(check="failed_requests", reason=reason, advice="read the server's log; the limit is 0"))
    doubts += _length_doubts([r for r in records if r.ok], load)
    doubts += _cache_doubts(records)
    return doubts


def _length_doubts(records: Sequence[RequestRecord], load: LoadSpec) -> list[Doubt]:
    doubts = []
    wrong = [r for r in records if r.output_tokens != load.output_tokens]
    if wrong:
        reason = (
            f"{len(wrong)} requests brought {wrong[0].output_tokens} output tokens, {load.output_tokens} were asked"
        )
        doubts.append(Doubt(check="output_length", reason=reason, advice="check ignore_eos and the context length"))
    wrong = [r for r in records if r.input_tokens not in (None, load.input_tokens)]
    if wrong and load.api != "chat":  # a chat template adds tokens of its own
        reason = f"{len(wrong)} prompts counted {wrong[0].input_tokens} tokens, {load.input_tokens} were sent"
        doubts.append(Doubt(check="input_length", reason=reason, advice="check that the server truncates nothing"))
    wrong = [r for r in records if r.arrived_tokens not in (None, r.output_tokens)]
    if wrong:
        seen, said = sum(r.arrived_tokens or 0 for r in wrong), sum(r.output_tokens for r in wrong)
        reason = f"{len(wrong)} requests: {seen} tokens arrived, the server says {said}"
        advice = "the server miscounts or drops tokens: no throughput can be trusted"
        doubts.append(Doubt(check="token_count", reason=reason, advice=advice))
    return doubts


def _cache_doubts(records: Sequence[RequestRecord]) -> list[Doubt]:
    hits = [r for r in records if r.cached_tokens]
    if not hits:
        return []
    cached = sum(r.cached_tokens or 0 for r in hits)
    reason = f"{len(hits)} of {len(records)} prompts took {cached} tokens from the prefix cache"
    advice = "flush the cache before the cell, or start the server with disable_radix_cache"
    return [Doubt(check="prefix_cache", reason=reason, advice=advice)]


def counter_doubts(result: LoadResult, counts: ServerCounts) -> list[Doubt]:
    """Return a doubt where the client's token sum and the server's own counter disagree, with both figures."""
    mine = sum(r.output_tokens for r in result.records)
    theirs = counts.generated_tokens
    if theirs is None:
        reason = "the server gives no sglang:generation_tokens_total"
        return [Doubt(check="server_counter", reason=reason, advice="start it with --enable-metrics", fatal=False)]
    if abs(mine - theirs) > COUNTER_TOLERANCE * max(mine, theirs, 1):
        reason = f"the client counted {mine} output tokens, the server's counter rose by {theirs}"
        advice = "another client uses this server, or one of the two counts wrong"
        return [Doubt(check="server_counter", reason=reason, advice=advice)]
    return []


def stationarity_doubts(result: LoadResult, limit: float = DRIFT_FATAL) -> list[Doubt]:
    """Return a doubt where TPOT still moves within the measured requests: the warm-up was too short, or heat.

    Args:
        result: What the load brought back.
        limit: Ratio of median TPOT between the first and last third at which the run is void.
    """
    tpot = [t for r in result.records if r.ok and not r.warmup and (t := r.tpot_ns) is not None]
    third = len(tpot) // 3
    if third < 2:
        return []
    first, last = float(np.median(tpot[:third])), float(np.median(tpot[-third:]))
    ratio = max(first, last) / max(min(first, last), 1.0)  # 0 where every token came in one read
    if ratio < DRIFT_NOTE:
        return []
    word = "fell" if last < first else "rose"
    reason = f"median TPOT {word} from {first / 1e6:.2f} to {last / 1e6:.2f} ms between the first and last third"
    advice = "raise warmup_requests if it fell; look for heat or a neighbour's load if it rose"
    return [Doubt(check="not_stationary", reason=reason, advice=advice, fatal=ratio >= limit, passing=True)]

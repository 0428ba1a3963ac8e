"""From a finished answer to its record: what counts as success, and the short reason where it is none."""

from __future__ import annotations

from tpgate.load.records import OK, RequestRecord
from tpgate.load.stream import Stream
from tpgate.specs import LoadSpec

_LONGEST = 300
"""Characters of a reason; what a server says may be of any length."""


def outcome_of(stream: Stream, asked: int) -> str:
    """Return ``ok`` or the reason why an answer is no success.

    Success is: status 200, an event stream, no error event, the asked-for number of output tokens as the server counts
    them, all of them seen to arrive in events, finish reason ``length``, ``[DONE]``, and a body that ended as its
    framing says.
    """
    reader = stream.reader
    complaint = reader.complaint()
    got = reader.tokens
    if stream.status >= 300:
        return f"HTTP {stream.status}: {stream.message or 'no body'}"
    if reader.error is not None:
        return f"error event: {reader.error}"
    if stream.malformed is not None:
        return stream.malformed
    if stream.status and not stream.event_stream:
        return f"HTTP {stream.status} without an event stream: {stream.message or 'no body'}"
    if stream.failure is not None:
        return f"{stream.failure} after {got} of {asked} tokens"
    if not stream.complete:
        return f"stream cut off after {got} of {asked} tokens"
    if complaint is not None:
        return complaint
    if reader.output_tokens != asked or reader.finish_reason != "length":
        return f"{reader.output_tokens} of {asked} tokens, finish reason {reader.finish_reason}"
    if got != asked:
        return f"{asked} tokens were counted at the end, {got} of them arrived in events"
    return OK if stream.done else "no [DONE] at the end of the stream"


def record_of(stream: Stream, load: LoadSpec) -> RequestRecord:
    """Return the record of a finished answer; whatever arrived is kept, whether it succeeded or not."""
    stream.close()
    outcome = outcome_of(stream, load.output_tokens)
    reader = stream.reader
    return RequestRecord(
        index=stream.index,
        warmup=stream.index < load.warmup_requests,
        scheduled_ns=stream.scheduled_ns,
        started_ns=stream.started_ns,
        chunk_ns=memoryview(stream.chunk_ns).toreadonly(),
        chunk_tokens=memoryview(stream.chunk_tokens).toreadonly(),
        ended_ns=stream.ended_ns or stream.last_ns,
        output_tokens=reader.tokens if reader.output_tokens is None else reader.output_tokens,
        input_tokens=reader.input_tokens,
        cached_tokens=reader.cached_tokens,
        reasoning_tokens=reader.reasoning_tokens,
        arrived_tokens=reader.arrived_tokens,
        finish_reason=reader.finish_reason,
        outcome=outcome[:_LONGEST],
    )

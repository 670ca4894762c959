"""The language model, through the ordinary `openai` client; its tokens go to the ledger as they come.

Which model it is, the environment says: `OPENAI_BASE_URL`, `OPENAI_API_KEY` and `OPENAI_MODEL`. The client makes each call
once (`max_retries=0`): trying again is the step's business, where it is recorded.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionChunk

from perdure import current_step
from perdure.demo import ledger

from .local_model import TINY

__all__ = ["Answer", "complete", "environment_has_model"]

SAMPLING: dict[str, dict[str, Any]] = {
    TINY: {"temperature": 0.2, "frequency_penalty": 0.4, "seed": 7, "max_tokens": 90},  # else it goes round in circles
}
DEFAULT_MODEL = "gpt-4o-mini"


@dataclass(frozen=True)
class Answer:
    """What a call brought: recorded as a part of its step's result, so never paid for again."""

    text: str
    model: str
    prompt_tokens: int
    completion_tokens: int


def environment_has_model() -> bool:
    """Whether the environment names a model, so that no local one is needed."""
    return bool(os.environ.get("OPENAI_BASE_URL") or os.environ.get("OPENAI_API_KEY"))


async def complete(step: str, prompt: str) -> Answer:
    """Ask the model and stream its answer. `step` names the call in the ledger."""
    key = current_step().idempotency_key
    model = os.environ.get("OPENAI_MODEL", DEFAULT_MODEL)
    ledger.enter("asked", step, key=key)
    pieces: list[str] = []
    prompt_tokens = completion_tokens = 0
    async with AsyncOpenAI(api_key=os.environ.get("OPENAI_API_KEY", "none"), max_retries=0) as client:
        stream = await client.chat.completions.create(
            model=model,
            messages=[{"role": "user", "content": prompt}],
            stream=True,
            stream_options={"include_usage": True},
            **SAMPLING.get(model, {}),
        )
        async for chunk in stream:
            if piece := _text(chunk):
                pieces.append(piece)
                ledger.enter("token", step, piece)
            if chunk.usage:
                prompt_tokens, completion_tokens = chunk.usage.prompt_tokens, chunk.usage.completion_tokens
    ledger.enter("answered", step, prompt_tokens=prompt_tokens, completion_tokens=completion_tokens, key=key)
    return Answer("".join(pieces).strip(), model, prompt_tokens, completion_tokens)


def _text(chunk: ChatCompletionChunk) -> str:
    return (chunk.choices[0].delta.content or "") if chunk.choices else ""

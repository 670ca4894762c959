"""The scripted model: it answers what is written here, one word at a time, at the pace of a real one.

It stands in for a language model so that the demo needs no key, no network and no weights. Its calls are slow and enter
themselves in the ledger, so they can be killed half-way and counted afterwards. Its tokens are words.
"""

from __future__ import annotations

import asyncio

from perdure import current_step

from . import ledger

__all__ = ["answer"]

PAUSE_BEFORE = 0.5  # seconds to the first word
PAUSE_BETWEEN = 0.06  # seconds between words

SCRIPT = {
    "plan": "what survives a crash;\nwho may write;\nwhat is paid twice",
    "write 1/3": "Every step's result is in the journal before any later code can see it, so a crash takes nothing that was finished.",
    "write 2/3": "One process owns a run at a time; whoever lost it is refused inside the transaction, however late it wakes up.",
    "write 3/3": "A recorded step is never computed again. Only the step that a crash cut off runs once more, under the same key.",
}


async def answer(step: str) -> str:
    """Answer the prompt of `step`, entering the call in the ledger as it goes."""
    key = current_step().idempotency_key
    ledger.enter("asked", step, key=key)
    await asyncio.sleep(PAUSE_BEFORE)
    text = SCRIPT[step]
    words = text.split()
    for word in words:
        ledger.enter("token", step, f"{word} ")
        await asyncio.sleep(PAUSE_BETWEEN)
    ledger.enter("answered", step, completion_tokens=len(words), key=key)
    return text

import asyncio
from perdure import App, ask, step, workflow

@step(retry=3)
async def search(query: str) -> list[str]:
    print(f"searching {query}", flush=True)
    await asyncio.sleep(1)                      # a model call, a tool: any I/O
    return [f"a fact about {query}"]

@step(once=True)                                # started at most once, whatever happens
async def publish(facts: list[str]) -> str:
    return f"published {len(facts)} facts"

@workflow
async def report(topic: str) -> str:
    facts = [fact for year in (2024, 2025, 2026) for fact in await search(f"{topic} {year}")]
    if not await ask(f"Publish {len(facts)} facts on {topic}?", timeout="7d", default=False):
        return "dropped"
    return await publish(facts)

async def main():
    async with App() as app:                    # sqlite:///perdure.db, and a worker in this process
        run = await app.start(report("llamas"), id="report-7")    # the same id is the same run
        print(await run.result())

if __name__ == "__main__":
    asyncio.run(main())

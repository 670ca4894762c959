"""Pydantic AI agents, unmodified, inside a workflow; models are its own offline fakes."""

import pytest

pytest.importorskip("pydantic_ai")

from pydantic import BaseModel
from pydantic_ai import Agent, ModelRetry, RunContext
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel

from perdure import ask, current_step, step, workflow

pytestmark = pytest.mark.frameworks

CITIES = ["Rome", "Oslo", "Lima"]


class Report(BaseModel):
    lines: list[str]
    approved: bool


def returned(messages):
    """What tools gave back so far, in the order in which the model sees it."""
    return [part.content for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]


def turns(messages):
    return sum(isinstance(message, ModelResponse) for message in messages)


def calls(tool, *args):
    return ModelResponse(parts=[ToolCallPart(tool, each, tool_call_id=f"{tool}-{index}") for index, each in enumerate(args)])


# ── parallel tools, several turns, structured output ────────────────────────────────────────────────────────────────


async def reporter_model(messages, info):
    seen = returned(messages)
    match turns(messages):
        case 0:
            return calls("weather", *({"city": city} for city in CITIES))
        case 1:
            return calls("approve", {"lines": seen})
        case 2:  # an output that does not fit: the agent asks again
            return calls(info.output_tools[0].name, {"lines": "not a list", "approved": True})
        case _:
            return calls(info.output_tools[0].name, {"lines": seen[:3], "approved": seen[3]})


def reporter(look_up):
    agent = Agent(FunctionModel(reporter_model), output_type=Report, retries=2)

    @agent.tool_plain
    async def weather(city: str) -> str:
        """The weather."""
        return await look_up(city)

    @agent.tool
    async def approve(ctx: RunContext[None], lines: list[str]) -> bool:
        """Ask a person."""
        return await ask(f"Publish {len(lines)} lines?")

    return agent


LOOK_UP = {}


@workflow
async def report() -> Report:
    return (await reporter(LOOK_UP["step"]).run("weather report")).output


def test_P67_tools_run_in_parallel_and_their_results_come_in_call_order(stage):
    LOOK_UP["step"] = stage.look_up
    result = stage.play(report(), answers=[True])
    assert result == Report(lines=[f"sunny in {city}" for city in CITIES], approved=True)
    assert stage.ran_together(*CITIES)


# ── nested agents ───────────────────────────────────────────────────────────────────────────────────────────────────


def delegating_model(tool, topic):
    async def model(messages, info):
        if turns(messages) == 0:
            return calls(tool, {"topic": topic}, {"topic": topic + "!"})
        return ModelResponse(parts=[TextPart(" + ".join(returned(messages)))])

    return FunctionModel(model)


clerk = Agent(delegating_model("look", "c"))
deputy = Agent(delegating_model("look", "b"))
chief = Agent(delegating_model("look", "a"))


@clerk.tool_plain(name="look")
async def clerk_looks(topic: str) -> str:
    """The innermost of three tools of the same name."""
    found = await LOOK_UP["step"](topic)
    return found if await ask(f"use {topic}?") else "nothing"


@deputy.tool_plain(name="look")
async def deputy_looks(topic: str) -> str:
    """The middle one."""
    return (await clerk.run(topic)).output


@chief.tool_plain(name="look")
async def chief_looks(topic: str) -> str:
    """The outer one."""
    return (await deputy.run(topic)).output


@workflow
async def delegate() -> str:
    return (await chief.run("go")).output


def test_P37_three_levels_of_agents_with_tools_of_equal_names(stage):
    LOOK_UP["step"] = stage.look_up
    result = stage.play(delegate(), answers=[True] * 8)
    assert result == " + ".join(["sunny in c", "sunny in c!"] * 4)
    assert sorted(stage.began) == ["c"] * 4 + ["c!"] * 4


# ── steps as tools, retries, the test model ─────────────────────────────────────────────────────────────────────────

attempts: list[str] = []


@step(retry=3)
async def flaky(number: int) -> int:
    """Doubles a number, at the second attempt."""
    attempts.append(current_step().idempotency_key)
    if len(attempts) == 1:
        raise ConnectionError("try again")
    return number * 2


picky = Agent(TestModel(custom_output_text="done", seed=3), tools=[flaky])


@picky.tool_plain(retries=2)
async def refuses_once(word: str) -> str:
    """Asks the model to try again."""
    if not refused:
        refused.append(word)
        raise ModelRetry("another word, please")
    return word


refused: list[str] = []


@workflow
async def pick() -> list[str]:
    refused.clear()  # per execution: what code in the workflow keeps must start anew when it is replayed
    result = await picky.run("go")
    assert await ask("all right?")
    return [result.output, *map(str, returned(result.all_messages()))]


def test_a_step_is_a_tool_and_its_retries_are_its_own(stage):
    attempts.clear()
    result = stage.play(pick(), answers=[True])
    assert result[0] == "done"
    assert "6" in result
    assert len(attempts) == 2
    assert len(set(attempts)) == 1


# ── streaming ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def streamed_words(messages, info):
    if turns(messages) == 0:
        yield {0: DeltaToolCall(name="weather", json_args='{"city": ', tool_call_id="w")}
        yield {0: DeltaToolCall(json_args='"Rome"}')}
    else:
        for word in ["it ", "is ", *returned(messages)]:
            yield word


@workflow
async def stream_it() -> list[str]:
    agent = Agent(FunctionModel(stream_function=streamed_words))

    @agent.tool_plain
    async def weather(city: str) -> str:
        """The weather."""
        found = await LOOK_UP["step"](city)
        await ask("go on?")
        return found

    async with agent.run_stream("go") as result:
        return [delta async for delta in result.stream_text(delta=True, debounce_by=None)]


def test_a_streamed_run(stage):
    LOOK_UP["step"] = stage.look_up
    assert stage.play(stream_it(), answers=[True]) == ["it ", "is ", "sunny in Rome"]
    assert stage.began == ["Rome"]


@workflow
async def iterate() -> list[str]:
    agent = reporter(LOOK_UP["step"])
    async with agent.iter("weather report") as run:
        return [type(node).__name__ async for node in run]


def test_iterating_over_the_graph(stage):
    LOOK_UP["step"] = stage.look_up
    names = stage.play(iterate(), answers=[False])
    assert names[0] == "UserPromptNode"
    assert names[-1] == "End"
    assert stage.ran_together(*CITIES)


# ── refused ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def agent_with_def_tool(tool):
    async def model(messages, info):
        if turns(messages) == 0:
            return calls("blocking_tool", {"city": "Rome"})
        return ModelResponse(parts=[TextPart(f"sorry: {returned(messages)}")])

    return Agent(FunctionModel(model), tools=[tool])


TOOL = {}


@workflow
async def with_def_tool() -> str:
    return (await agent_with_def_tool(TOOL["tool"]).run("go")).output


@workflow
async def with_def_model() -> str:
    def model(messages, info):
        return ModelResponse(parts=[TextPart("from a thread")])

    return (await Agent(FunctionModel(model)).run("go")).output


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # the thread is told that nobody waits
@pytest.mark.parametrize("waits", [False, True], ids=["ends", "never ends"])
def test_S25_a_def_tool_runs_in_a_thread_and_is_refused(once, waits):
    def blocking_tool(city: str) -> str:
        """The weather."""
        if waits:
            once.release.wait(60)
        return city

    TOOL["tool"] = blocking_tool
    blocked = once.blocked(with_def_tool())
    assert blocked.code == "PRD-402"
    assert "pydantic_ai" in blocked.reason or "call_soon_threadsafe" in blocked.reason
    assert "step" in blocked.hint


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_S25_a_def_model_function_too(once):
    assert once.blocked(with_def_model()).code == "PRD-402"

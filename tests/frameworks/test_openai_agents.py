"""OpenAI Agents SDK agents, unmodified, inside a workflow; models are its own `ScriptedModel`."""

import json

import pytest

pytest.importorskip("agents.testing")

from agents import Agent, RunConfig, Runner, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call
from agents.tracing import set_trace_processors
from agents.tracing.processors import BatchTraceProcessor, TracingExporter
from pydantic import BaseModel

from perdure import ask, step, workflow

pytestmark = pytest.mark.frameworks

CITIES = ["Rome", "Oslo", "Lima"]
QUIET = RunConfig(tracing_disabled=True)
LOOK_UP = {}
TOOL = {}


class Report(BaseModel):
    lines: list[str]
    approved: bool


@function_tool
async def weather(city: str) -> str:
    """The weather."""
    return await LOOK_UP["step"](city)


@function_tool
async def approve(question: str) -> bool:
    """Ask a person."""
    return await ask(question)


def outputs(result):
    """What tools gave back, in the order in which the model sees it."""
    return [item["output"] for item in result.to_input_list() if item.get("type") == "function_call_output"]


def weather_calls():
    return [function_call("weather", {"city": city}, call_id=f"call-{city}") for city in CITIES]


# ── parallel tools, several turns, structured output ────────────────────────────────────────────────────────────────


@workflow
async def report() -> tuple[Report, list[str]]:
    final = Report(lines=["all sunny"], approved=True).model_dump_json()
    model = ScriptedModel(
        [weather_calls(), [function_call("approve", {"question": "Publish?"}, call_id="a")], [assistant_message(final)]]
    )
    agent = Agent(name="reporter", model=model, tools=[weather, approve], output_type=Report)
    result = await Runner.run(agent, "weather report", run_config=QUIET)
    model.assert_complete()
    return result.final_output, [str(each) for each in outputs(result)]


def test_P67_tools_run_in_parallel_and_their_results_come_in_call_order(stage):
    LOOK_UP["step"] = stage.look_up
    result, seen = stage.play(report(), answers=[True])
    assert result == Report(lines=["all sunny"], approved=True)
    assert seen == [*(f"sunny in {city}" for city in CITIES), "True"]
    assert stage.ran_together(*CITIES)


@workflow
async def traced() -> str:
    agent = Agent(name="traced", model=ScriptedModel([weather_calls(), [assistant_message("done")]]), tools=[weather])
    return (await Runner.run(agent, "go")).final_output


class Kept(TracingExporter):
    """Sends nothing anywhere."""

    def __init__(self):
        self.items = []

    def export(self, items):
        self.items += items


def test_its_tracing_may_keep_a_thread_of_its_own(stage):
    LOOK_UP["step"] = stage.look_up
    kept = Kept()
    processor = BatchTraceProcessor(kept)
    set_trace_processors([processor])
    try:
        assert stage.play(traced()) == "done"
    finally:
        set_trace_processors([])
        processor.shutdown()
    assert stage.ran_together(*CITIES)
    assert kept.items


# ── nested agents ───────────────────────────────────────────────────────────────────────────────────────────────────


def level(name, inner, call_id):
    """An agent with one tool called `look`, twice in a turn: an agent of its own, or at the bottom a step and an ask."""

    @function_tool(name_override="look")
    async def look(topic: str) -> str:
        """Look."""
        if inner is None:
            found = await LOOK_UP["step"](topic)
            return found if await ask(f"use {topic}?") else "nothing"
        return (await Runner.run(inner(topic), topic, run_config=QUIET)).final_output

    def agent(topic):
        asked = [function_call("look", {"topic": f"{topic}{each}"}, call_id=f"{call_id}{each}") for each in "xy"]
        model = ScriptedModel([asked, [assistant_message(f"{name} done with {topic}")]])
        return Agent(name="agent", model=model, tools=[look])

    return agent


@workflow
async def delegate() -> str:
    chief = level("chief", level("deputy", level("clerk", None, "c"), "b"), "a")
    return (await Runner.run(chief("t"), "go", run_config=QUIET)).final_output


def test_P37_three_levels_of_agents_with_tools_of_equal_names(stage):
    LOOK_UP["step"] = stage.look_up
    assert stage.play(delegate(), answers=[True] * 8) == "chief done with t"
    assert sorted(stage.began) == sorted(f"t{a}{b}{c}" for a in "xy" for b in "xy" for c in "xy")


@workflow
async def hand_over() -> list[str]:
    expert = Agent(
        name="expert", model=ScriptedModel([weather_calls()[:1], [assistant_message("from the expert")]]), tools=[weather]
    )
    front = Agent(
        name="front",
        model=ScriptedModel([[function_call("transfer_to_expert", {}, call_id="h")]]),
        handoffs=[expert],
        tools=[approve],
    )
    result = await Runner.run(front, "go", run_config=QUIET)
    await ask("all right?")
    return [result.final_output, result.last_agent.name]


def test_a_handoff(stage):
    LOOK_UP["step"] = stage.look_up
    assert stage.play(hand_over(), answers=[True]) == ["from the expert", "expert"]
    assert stage.began == ["Rome"]


# ── a tool that a step backs directly, streaming ────────────────────────────────────────────────────────────────────


@step
async def double(number: int) -> int:
    """Doubles a number.

    Args:
        number: what to double
    """
    return number * 2


@workflow
async def with_step_as_tool() -> list[str]:
    tool = function_tool(double)
    assert json.dumps(tool.params_json_schema).count("what to double") == 1
    model = ScriptedModel([[function_call("double", {"number": 4}, call_id="d")], [assistant_message("done")]])
    result = await Runner.run(Agent(name="a", model=model, tools=[tool]), "go", run_config=QUIET)
    return [str(each) for each in outputs(result)]


def test_a_step_is_a_tool(stage):
    assert stage.play(with_step_as_tool()) == ["8"]


@workflow
async def stream_it() -> list[str]:
    model = ScriptedModel(
        [weather_calls(), [function_call("approve", {"question": "ok?"}, call_id="a")], [assistant_message("done")]]
    )
    result = Runner.run_streamed(Agent(name="a", model=model, tools=[weather, approve]), "go", run_config=QUIET)
    kinds = [event.item.type async for event in result.stream_events() if event.type == "run_item_stream_event"]
    return [*kinds, result.final_output]


def test_a_streamed_run(stage):
    LOOK_UP["step"] = stage.look_up
    *kinds, final = stage.play(stream_it(), answers=[True])
    assert final == "done"
    assert kinds.count("tool_call_item") == kinds.count("tool_call_output_item") == 4
    assert kinds[-1] == "message_output_item"
    assert stage.ran_together(*CITIES)


# ── refused ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@workflow
async def with_def_tool() -> str:
    asked = [function_call("blocking_tool", {"city": "Rome"}, call_id="b")]
    model = ScriptedModel([asked, [assistant_message("sorry, an error occurred")]])
    agent = Agent(name="a", model=model, tools=[function_tool(TOOL["tool"])])
    return (await Runner.run(agent, "go", run_config=QUIET)).final_output


def test_S25_a_def_tool_is_refused_though_the_framework_swallows_that(once):
    ran = []

    def blocking_tool(city: str) -> str:
        """The weather."""
        ran.append(city)
        return city

    TOOL["tool"] = blocking_tool
    blocked = once.blocked(with_def_tool())
    assert blocked.code == "PRD-402"
    assert "run_in_executor" in blocked.reason
    assert "agents" in blocked.reason
    assert not ran

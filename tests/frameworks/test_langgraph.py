"""LangGraph graphs, unmodified, inside a workflow; models are the fakes that langchain-core ships."""

import operator
from typing import Annotated, TypedDict

import pytest

pytest.importorskip("langgraph")

from langchain_core.language_models.fake_chat_models import FakeListChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Send
from pydantic import BaseModel

from perdure import ask, step, workflow

pytestmark = pytest.mark.frameworks

CITIES = ["Rome", "Oslo", "Lima"]
LOOK_UP = {}


class State(TypedDict):
    lines: Annotated[list[str], operator.add]
    approved: bool


# ── parallel branches, several super-steps ──────────────────────────────────────────────────────────────────────────


def branch(city):
    async def node(state: State) -> dict:
        return {"lines": [await LOOK_UP["step"](city)]}

    return node


async def approve(state: State) -> dict:
    return {"approved": await ask(f"Publish {len(state['lines'])} lines?")}


async def close(state: State) -> dict:
    return {"lines": ["the end" if state["approved"] else "dropped"]}


def branches():
    graph = StateGraph(State)
    for city in CITIES:
        graph.add_node(city, branch(city))
        graph.add_edge(START, city)
        graph.add_edge(city, "approve")
    graph.add_node("approve", approve)
    graph.add_node("close", close)
    graph.add_edge("approve", "close")
    graph.add_edge("close", END)
    return graph


@workflow
async def fan_out() -> list[str]:
    return (await branches().compile().ainvoke({"lines": []}))["lines"]


def test_parallel_branches(stage):
    LOOK_UP["step"] = stage.look_up
    # Parallel writes are applied in the order of the nodes' names, whichever was faster.
    assert stage.play(fan_out(), answers=[True]) == [*(f"sunny in {city}" for city in sorted(CITIES)), "the end"]
    assert stage.ran_together(*CITIES)


@workflow
async def checkpointed() -> list[str]:
    graph = branches().compile(checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "t"}}
    await graph.ainvoke({"lines": []}, config)
    return (await graph.aget_state(config)).values["lines"]


def test_with_a_checkpointer_in_memory(stage):
    LOOK_UP["step"] = stage.look_up
    assert stage.play(checkpointed(), answers=[False])[-1] == "dropped"
    assert stage.ran_together(*CITIES)


@workflow
async def stream_it() -> list[str]:
    return [name async for update in branches().compile().astream({"lines": []}, stream_mode="updates") for name in update]


def test_a_streamed_run(stage):
    LOOK_UP["step"] = stage.look_up
    names = stage.play(stream_it(), answers=[True])
    assert sorted(names[:3]) == sorted(CITIES)
    assert names[3:] == ["approve", "close"]
    assert stage.ran_together(*CITIES)


# ── map and reduce, nested graphs, tasks ────────────────────────────────────────────────────────────────────────────


class One(TypedDict):
    city: str


async def look(one: One) -> dict:
    return {"lines": [await LOOK_UP["step"](one["city"])]}


async def to_each(state: State) -> list[Send]:
    return [Send("look", {"city": city}) for city in CITIES]


@workflow
async def map_reduce() -> list[str]:
    inner = StateGraph(State)
    inner.add_node("look", look)
    inner.add_conditional_edges(START, to_each, ["look"])
    inner.add_edge("look", END)
    outer = StateGraph(State)
    outer.add_node("gather", inner.compile())
    outer.add_node("approve", approve)
    outer.add_edge(START, "gather")
    outer.add_edge("gather", "approve")
    outer.add_edge("approve", END)
    return (await outer.compile().ainvoke({"lines": []}))["lines"]


def test_a_nested_graph_that_maps(stage):
    LOOK_UP["step"] = stage.look_up
    assert stage.play(map_reduce(), answers=[True]) == [f"sunny in {city}" for city in CITIES]
    assert stage.ran_together(*CITIES)


@workflow
async def functional() -> list[str]:
    @task
    async def one(city: str) -> str:
        return await LOOK_UP["step"](city)

    @entrypoint()
    async def all_of(cities: list[str]) -> list[str]:
        futures = [one(city) for city in cities]
        await ask("go on?")
        return [await future for future in futures]

    return await all_of.ainvoke(CITIES)


def test_the_functional_api(stage):
    LOOK_UP["step"] = stage.look_up
    assert stage.play(functional(), answers=[True]) == [f"sunny in {city}" for city in CITIES]
    assert stage.ran_together(*CITIES)


# ── an agent: model, tools, structured output ───────────────────────────────────────────────────────────────────────


@tool
async def weather(city: str) -> str:
    """The weather."""
    return await LOOK_UP["step"](city)


class Verdict(BaseModel):
    text: str


asked: list[int] = []


@step
async def call_model(turn: int) -> AIMessage:
    """A model call as a step: there the fake may use its thread."""
    asked.append(turn)
    calls = [{"name": "weather", "args": {"city": city}, "id": f"call-{city}"} for city in CITIES]
    script = [AIMessage("", tool_calls=calls), AIMessage('{"text": "sunny"}')]
    return await GenericFakeChatModel(messages=iter(script[turn:])).ainvoke("go")


async def model(state: MessagesState) -> dict:
    turn = sum(message.type == "ai" for message in state["messages"])
    if turn == 1:
        await ask("go on?")
    return {"messages": [await call_model(turn)]}


async def to_tools(state: MessagesState) -> str:
    return tools_condition(state)  # a plain function: used as an edge by itself it would run in a thread


@workflow
async def agent() -> tuple[Verdict, list[str]]:
    graph = StateGraph(MessagesState)
    graph.add_node("model", model)
    graph.add_node("tools", ToolNode([weather]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", to_tools, ["tools", END])
    graph.add_edge("tools", "model")
    state = await graph.compile().ainvoke({"messages": [HumanMessage("weather report")]})
    seen = [message.content for message in state["messages"] if message.type == "tool"]
    return Verdict.model_validate_json(state["messages"][-1].content), seen


def test_P67_an_agent_with_tools_in_parallel(stage):
    LOOK_UP["step"] = stage.look_up
    asked.clear()
    verdict, seen = stage.play(agent(), answers=[True])
    assert verdict == Verdict(text="sunny")
    assert seen == [f"sunny in {city}" for city in CITIES]
    assert stage.ran_together(*CITIES)
    assert asked == [0, 1]


@workflow
async def stream_model() -> str:
    async def talk(state: State) -> dict:
        await ask("go on?")
        model = FakeListChatModel(responses=["it is sunny"])
        return {"lines": ["".join([chunk.content async for chunk in model.astream("go")])]}

    graph = StateGraph(State)
    graph.add_node("talk", talk)
    graph.add_edge(START, "talk")
    state = [part async for part in graph.compile().astream({"lines": []}, stream_mode="values")][-1]
    return state["lines"][0]


def test_a_model_that_streams(stage):
    assert stage.play(stream_model(), answers=[True]) == "it is sunny"


# ── refused ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@workflow
async def with_def_node() -> list[str]:
    def blocking_node(state: State) -> dict:
        return {"lines": ["from a thread"]}

    graph = StateGraph(State)
    graph.add_node("blocking_node", blocking_node)
    graph.add_edge(START, "blocking_node")
    return (await graph.compile().ainvoke({"lines": []}))["lines"]


@workflow
async def with_def_tool() -> list[str]:
    @tool
    def blocking_tool(city: str) -> str:
        """The weather."""
        return city

    call = {"name": "blocking_tool", "args": {"city": "Rome"}, "id": "c"}
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([blocking_tool], handle_tool_errors=True))  # it tells the model that an error occurred
    graph.add_edge(START, "tools")
    state = await graph.compile().ainvoke({"messages": [AIMessage("", tool_calls=[call])]})
    return [str(message.content) for message in state["messages"]]


@pytest.mark.parametrize("call", [with_def_node, with_def_tool], ids=["node", "tool"])
def test_S25_def_nodes_and_tools_are_refused(once, call):
    blocked = once.blocked(call())
    assert blocked.code == "PRD-402"
    assert "run_in_executor" in blocked.reason
    assert "langchain" in blocked.reason or "langgraph" in blocked.reason

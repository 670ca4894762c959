"""Decorators on what cannot be made durable, and options that mean nothing: refused where they stand, with what to write."""

import functools
from dataclasses import dataclass

import pytest

from perdure import ConfigurationError, DefinitionError, NotStorable, Retry, step, workflow
from perdure.registry import definitions


@pytest.fixture(autouse=True)
def nothing_is_defined():
    """What is refused does not become known either."""
    before = definitions.names(), len(definitions.all())
    yield
    assert (definitions.names(), len(definitions.all())) == before


class Thing:
    async def method(self): ...

    async def of_class(cls): ...

    def __call__(self): ...


async def generator():
    yield 1


def plain_generator():
    yield 1


def plain(): ...


async def good(): ...


def refused(decorator, target, code="PRD-702"):
    with pytest.raises((DefinitionError, ConfigurationError, NotStorable)) as caught:
        decorator(target)
    assert caught.value.code == code
    text = str(caught.value)
    assert "\n  → " in text, f"it does not say what to do: {text}"
    return text


WRONG = {
    "class": (Thing, "the class Thing"),
    "instance": (Thing(), "Thing object"),
    "async generator": (generator, "the generator function generator"),
    "generator": (plain_generator, "the generator function plain_generator"),
    "builtin type": (int, "the class int"),
    "number": (3, "3"),
    "text": ("name", "'name'"),
    "static method": (staticmethod(good), "a staticmethod"),
    "class method": (classmethod(good), "a classmethod"),
    "partial": (functools.partial(good), "functools.partial"),
    "dataclass": (dataclass(type("Data", (), {})), "the class Data"),
}


@pytest.mark.parametrize(
    "decorator", [step, workflow, step(retry=2), workflow(version="1")], ids=["@step", "@workflow", "@step()", "@workflow()"]
)
@pytest.mark.parametrize("name", WRONG)
def test_a_decorator_on_the_wrong_thing(decorator, name):
    target, told = WRONG[name]
    assert told in refused(decorator, target)


def test_a_workflow_must_be_async():
    text = refused(workflow, plain)
    assert "plain" in text
    assert "async def" in text
    assert "steps" in text
    assert "<lambda>" in refused(workflow, lambda: None)


def test_a_workflow_is_no_method():
    for method in (Thing.method, Thing.of_class):
        text = refused(workflow, method)
        assert f"the method Thing.{method.__name__}" in text
        assert "without its object" in text


def test_decorated_twice():
    before = definitions.names(), len(definitions.all())
    made, other = step(name="decorated")(good), workflow(name="decorated")(good)
    try:
        for decorator in (step, workflow):
            for each in (made, other):
                assert "which is one already" in refused(decorator, each)
    finally:
        definitions._steps.pop("decorated")
        definitions._workflows.pop("decorated")
    assert (definitions.names(), len(definitions.all())) == before


@pytest.mark.parametrize(
    ("decorator", "options", "told"),
    [
        (step, {"retries": 3}, "'retries'(.|\n)*retry=?"),
        (step, {"time_out": "3s"}, "'time_out'(.|\n)*timeout=?"),
        (step, {"colour": "red"}, "'colour'(.|\n)*its options are name, retry, timeout"),
        (workflow, {"dead_line": "3s"}, "'dead_line'(.|\n)*deadline=?"),
        (workflow, {"retry": 3}, "'retry'(.|\n)*its options are name, version"),
    ],
    ids=["retries", "time_out", "colour", "dead_line", "retry"],
)
def test_an_option_that_there_is_not(decorator, options, told):
    with pytest.raises(DefinitionError, match=f"PRD-702.*{told}"):
        decorator(**options)


@pytest.mark.parametrize(
    ("decorator", "options", "told"),
    [
        (step, {"retry": "three"}, "retry must be a number of attempts"),
        (step, {"retry": 0}, "attempts must be a whole number from 1"),
        (step, {"timeout": "soon"}, "step timeout 'soon'(.|\n)*'60s'"),
        (step, {"timeout": -1}, "step timeout must not be negative"),
        (workflow, {"timeout": True}, "workflow timeout must be seconds"),
        (workflow, {"deadline": "7 days"}, "workflow deadline '7 days'"),
    ],
    ids=lambda value: next(iter(value.values())) if isinstance(value, dict) else "",
)
def test_a_value_that_means_nothing(decorator, options, told):
    with pytest.raises(ConfigurationError, match=f"PRD-703.*{told}"):
        decorator(**options)(good)


@pytest.mark.parametrize("decorator", [step, workflow])
def test_names_are_text(decorator):
    for options in ({"name": 3}, {"name": ""}, {"aliases": "old"}, {"aliases": [3]}):
        with pytest.raises(DefinitionError, match=r"PRD-702.*must be"):
            decorator(**options)


@pytest.mark.parametrize(
    "options", [{"factor": 0.5}, {"jitter": 2}, {"attempts": True}, {"initial": "x"}, {"max_delay": -1}], ids=repr
)
def test_a_retry_that_means_nothing(options):
    with pytest.raises(ConfigurationError, match=r"PRD-703.*retry"):
        Retry(**options)


@pytest.mark.parametrize("options", [{"probe": 3}, {"identity": "x"}], ids=repr)
def test_a_probe_and_an_identity_are_functions(options):
    text = refused(step(**options), good)
    assert f"{next(iter(options))}= of step" in text


def test_annotations_that_cannot_be_stored_are_refused_where_they_stand():
    async def returns() -> Thing: ...

    async def takes(thing: Thing) -> None: ...

    assert "returns" in refused(step, returns, "PRD-301")
    assert "Thing" in refused(workflow, returns, "PRD-301")
    assert "thing" in refused(workflow, takes, "PRD-301")


def test_two_functions_do_not_share_a_name():
    before = definitions.names(), len(definitions.all())

    async def other(): ...

    step(name="shared")(good)
    workflow(name="shared")(good)
    try:
        for decorator in (step, workflow):
            text = refused(decorator(name="shared"), other)
            assert "'shared'" in text
            assert "good" in text
            assert "other" in text
    finally:
        definitions._steps.pop("shared")
        definitions._workflows.pop("shared")
    assert (definitions.names(), len(definitions.all())) == before

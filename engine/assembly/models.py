"""What asks models: the client, its batches, and the words of the requests."""

from __future__ import annotations

from collections.abc import Mapping

from engine.batch_events import BatchEvents
from engine.bus import Bus
from engine.llm.batches import LLMBatcher
from engine.llm.budget import Budget
from engine.llm.client import ModelClient
from engine.llm.limiter import Limiter, Limiters
from engine.llm.prices import load_prices
from engine.llm.sdk import Deadlines
from engine.project import Project
from engine.roles.context import read_context
from engine.roles.prompt_library import PromptLibrary
from engine.roles.requests import Requests
from engine.settings import Settings
from engine.templates import TemplateEngine


def load_prompts(project: Project) -> PromptLibrary:
    """Compile all prompts, the repository's own first. Raises TemplateError."""
    prompts = PromptLibrary(TemplateEngine(), overrides=project.repository.root / ".taskyard" / "prompts")
    prompts.load()
    return prompts


def model_client(
    settings: Settings, environ: Mapping[str, str], budget: Budget, bus: Bus
) -> ModelClient | None:
    """The model client, where any role needs one."""
    roles = settings.roles
    if not any(role.kind == "anthropic" for role in (roles.planner, roles.implementer, roles.judge)):
        return None
    llm = settings.llm
    client = ModelClient(
        llm.base_url,
        environ.get("ANTHROPIC_API_KEY"),
        limiters=Limiters(
            lambda name: Limiter(
                name, initial=llm.max_concurrency, maximum=llm.max_concurrency, clock=bus.clock
            )
        ),
        prices=load_prices(llm.prices),
        budget=budget,
        notice=lambda text: bus.notice("warning", text),
        deadlines=Deadlines(total=llm.timeout, idle=llm.idle_timeout),
        environ=environ,
    )
    client.warm_up()
    return client


def batcher_of(client: ModelClient | None, settings: Settings, bus: Bus) -> LLMBatcher | None:
    """What gathers requests into batches, where models are asked and the settings allow batches."""
    if client is None or settings.llm.batch == "off":
        return None
    return LLMBatcher(
        client,
        BatchEvents(bus),
        max_size=settings.llm.batch_size,
        max_age=settings.llm.batch_age,
        clock=bus.clock,
    )


async def requests_over(project: Project, prompts: PromptLibrary, base: str) -> Requests:
    """What builds the requests, each beginning with the same words about the repository as of `base`."""
    settings = project.settings
    context = await read_context(project.repository, base)
    about = prompts.render(
        "repository",
        files=context.files,
        omitted=context.omitted,
        guide=context.guide,
        folders=settings.git.sparse,
    )
    return Requests(prompts.render, settings.roles, settings.llm, about, settings.git.sparse)

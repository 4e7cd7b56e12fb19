"""Agents as a user would write them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar

from openai import AsyncOpenAI, OpenAI


class Upwards:
    """Calls the planner, shows the executor its plan, and gets a reward for every "north" and "up" in their answers."""

    def __init__(self, bonus: float = 0.0) -> None:
        self.bonus = bonus

    async def run(self, data: dict[str, Any], *, client: AsyncOpenAI, **kwargs: Any) -> float:
        talk: list[Any] = [{"role": "user", "content": data["observations"]["planner"]}]
        plan = await client.chat.completions.create(model="planner", messages=talk)
        told = plan.choices[0].message.content or ""
        moves = await client.chat.completions.create(
            model="executor", messages=[{"role": "user", "content": f"plan {told}"}]
        )
        said = f"{told} {moves.choices[0].message.content}".split()
        return (said.count("north") + said.count("up")) / 8 + self.bonus


class Player(Upwards):
    """Plays for an environment that plays its tasks itself; it counts how often it is served."""

    served: ClassVar[list[tuple[str, ...]]] = []

    def __init__(self, section: Any, roles: Sequence[str], seed: int) -> None:
        super().__init__(bonus=10.0)
        self._roles = tuple(roles)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        self.served.append(("begin", *self._roles))
        yield
        self.served.append(("end",))


class Twice:
    """Has two turns of one conversation with the planner, without async; returns a reward for each call."""

    def run(self, data: dict[str, Any], *, base_url: str, api_key: str, **kwargs: Any) -> dict[str, float]:
        client = OpenAI(base_url=base_url, api_key=api_key, max_retries=0)
        talk: list[Any] = [{"role": "user", "content": data["observations"]["planner"]}]
        rewards = {}
        for _ in range(2):
            made = client.chat.completions.create(model="planner", messages=talk)
            said = made.choices[0].message.content or ""
            rewards[made.id] = said.split().count("east") / 2
            talk += [{"role": "assistant", "content": said}, {"role": "user", "content": "plan"}]
        return rewards


class Moody:
    """Breaks on odd tasks, sleeps too long on every fourth, and forgets the reward on task 2."""

    async def run(self, data: dict[str, Any], *, client: AsyncOpenAI, **kwargs: Any) -> float | None:
        import asyncio

        if data["number"] % 2:
            raise ValueError("an odd task")
        if data["number"] % 4 == 2:
            return None
        await client.chat.completions.create(model="planner", messages=data["messages"])
        await asyncio.sleep(60)
        return None


class Clumsy:
    """Makes calls that no policy can answer, and then one that it can."""

    async def run(self, data: dict[str, Any], *, base_url: str, http_client: Any, **kwargs: Any) -> float:
        for path, body in (
            ("completions", {"prompt": [99_999_999]}),
            ("completions", {"prompt": [-1]}),
            ("chat/completions", {"messages": [{"role": ["x"], "content": "x"}]}),
            ("chat/completions", {"messages": [{"role": "assistant", "content": "x", "tool_calls": "zz"}]}),
        ):
            answer = await http_client.post(f"{base_url}/{path}", json=body | {"model": "planner"})
            assert answer.status_code == 400, answer.text
        said = await http_client.post(
            f"{base_url}/chat/completions", json={"model": "planner", "messages": data["messages"]}
        )
        return float(said.json()["choices"][0]["message"]["content"].count("north"))


class Greeter:
    """No agent: it cannot run."""


class Reader:
    """Answers a line of a data file, as an agent written for AReaL does: it makes its own client."""

    async def run(self, data: dict[str, Any], **extra: Any) -> float:
        client = AsyncOpenAI(
            base_url=extra["base_url"],
            api_key=extra["api_key"],
            http_client=extra["http_client"],
            max_retries=0,
        )
        made = await client.chat.completions.create(model="default", messages=data["messages"])
        return float(data["answer"] in (made.choices[0].message.content or "").split())


class Mistaken:
    """Rewards its call, then ends with an error of one kind."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    async def run(self, data: dict[str, Any], *, client: AsyncOpenAI, **kwargs: Any) -> float:
        import asyncio

        if self.kind == "before":
            raise ValueError("nothing was asked")
        talk: list[Any] = [{"role": "user", "content": "What is the weather?"}]
        made = await client.chat.completions.create(model="solver", messages=talk)
        root = str(client.base_url).removesuffix("/v1/")
        await client._client.post(f"{root}/reward", json={"rewards": {made.id: 1.0}})
        if self.kind == "connection":
            raise RuntimeError("the agent broke") from ConnectionResetError("a tool's server")
        if self.kind == "slow":
            await asyncio.sleep(60)
        raise ValueError("there is no tool 'rm'")

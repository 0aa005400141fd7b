"""AgentGym's environment clients: the requests that its classes make and the fields that they read.

Written after ``agentenv/envs/*.py`` of the AgentGym repository; each method makes the requests of the method
of that name, in order, and reads what it reads, so that a missing field is a KeyError here as there.
"""

from __future__ import annotations

import re
from typing import Any

import httpx

__all__ = ["CLIENTS", "AlfWorld", "BabyAI", "SciWorld", "TextCraft", "WebShop"]


class _Client:
    name: str
    id_field = "id"

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http
        self.base = f"/agentgym/{self.name}"
        self.env_id: int = -1
        self.info: dict[str, Any] = {}

    async def make(self) -> None:
        ok = await self.http.post(f"{self.base}/create")
        assert ok.status_code == 200, ok.text
        self.env_id = ok.json()["id"]

    async def post(self, path: str, **data: Any) -> Any:
        data[self.id_field] = self.env_id
        res = await self.http.post(f"{self.base}/{path}", json=data)
        assert res.status_code == 200, res.text
        return res.json()

    async def get(self, path: str) -> Any:
        res = await self.http.get(f"{self.base}/{path}?{self.id_field}={self.env_id}")
        assert res.status_code == 200, res.text
        return res.json()

    async def observe(self) -> str:
        return self.info["observation"]

    async def close(self) -> Any:
        return await self.post("close")


class TextCraft(_Client):
    name = "textcraft"

    async def make(self) -> None:
        dir_info = {"minecraft_dir": "agentenv_textcraft/", "commands": None, "goal": None}
        ok = await self.http.post(f"{self.base}/create", json=dir_info)
        assert ok.status_code == 200, ok.text
        self.env_id = ok.json()["id"]
        self.info = {"observation": ok.json()["observation"], "reward": 0, "done": False}

    async def step(self, action: str) -> tuple[str, float, bool]:
        action_matches = re.findall(r"Action:\s*(.*?)(?=\n|$)", action, re.DOTALL)
        action = action_matches[-1] if action_matches else ""
        response = await self.post("step", action=re.sub(r"[^A-Za-z0-9, ]+", "", action))
        self.info = {key: response[key] for key in ("observation", "reward", "done")}
        return response["observation"], response["reward"], response["done"]

    async def reset(self, idx: int) -> Any:
        response = await self.post("reset", data_idx=idx)
        self.info.update({"observation": response["observation"], "reward": 0, "done": False})
        return response


class BabyAI(_Client):
    name = "babyai"

    async def step(self, action: str) -> tuple[str, float, bool]:
        action_matches = re.findall(r"Action:\s*(.*?)(?=\n|$)", action, re.DOTALL)
        action = action_matches[-1] if action_matches else ""
        response = await self.post("step", action=re.sub(r"[^A-Za-z0-9, ]+", "", action))
        self.info = {key: response[key] for key in ("observation", "reward", "score", "done")}
        return response["observation"], response["score"], response["done"]

    async def reset(self, idx: int) -> Any:
        response = await self.post("reset", data_idx=idx)
        self.info = {key: response[key] for key in ("observation", "reward", "score", "done")}
        return response


class SciWorld(_Client):
    name = "sciworld"

    async def step(self, action: str) -> tuple[str, float, bool]:
        response = await self.post("step", action=action.rsplit("Action:", 1)[-1].strip())
        self.info = {key: response[key] for key in ("observation", "reward", "score", "done")}
        return response["observation"], response["score"], response["done"]

    async def reset(self, idx: int) -> Any:
        response = await self.post("reset", data_idx=idx)
        self.info = {"observation": response["task_description"] + "\n" + response["observation"]}
        return response


class AlfWorld(_Client):
    name = "alfworld"

    async def observe(self) -> str:
        return f"{self.info['observation']}\nAVAILABLE ACTIONS: {','.join(self.info['available_actions'])}"

    async def step(self, action: str) -> tuple[str, float, bool]:
        response = await self.post("step", action=action.rsplit("Action:", 1)[-1].strip())
        fields = ("observation", "available_actions", "reward", "done")
        self.info = {key: response[key] for key in fields}
        return response["observation"], response["reward"], response["done"]

    async def reset(self, idx: int) -> Any:
        response = await self.post("reset", game=idx, world_type="Text")
        self.info = {key: response[key] for key in ("observation", "available_actions")}
        return response


class WebShop(_Client):
    name = "webshop"
    id_field = "env_idx"

    async def make(self) -> None:
        ok = await self.http.post(f"{self.base}/create")
        assert ok.status_code == 200, ok.text
        self.env_id = ok.json()

    async def observe(self) -> str:
        return await self.get("observation")

    async def step(self, action: str) -> tuple[str, float, bool]:
        response = await self.post("step", action=action.rsplit("Action:", 1)[-1].strip())
        return response["state"], response["reward"], response["done"]

    async def reset(self, idx: int) -> Any:
        response = await self.post("reset", session_id=idx)
        response[0] = await self.observe()
        return response


CLIENTS = (TextCraft, BabyAI, SciWorld, AlfWorld, WebShop)

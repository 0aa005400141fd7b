"""A model hub that takes repositories and commits, in the wire format of the Hugging Face hub."""

import base64
import json

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route


class FakeHub:
    """All files are small to it, so that commits carry them."""

    def __init__(self):
        self.repositories = {}
        """By name: whether it is private, and its files."""
        self.messages = []
        self.refuses = False
        self.app = Starlette(
            routes=[
                Route("/api/repos/create", self._create, methods=["POST"]),
                Route("/api/models/{owner}/{name}/preupload/{revision}", self._preupload, methods=["POST"]),
                Route("/api/models/{owner}/{name}/commit/{revision}", self._commit, methods=["POST"]),
                Route("/api/models/{owner}/{name}", self._info),
            ]
        )

    async def _create(self, request: Request):
        said = await request.json()
        owner, name = said.get("organization"), said["name"]
        key = f"{owner}/{name}" if owner else name
        if self.refuses:
            return JSONResponse({"error": "no"}, 403)
        if key in self.repositories:
            return JSONResponse({"url": f"{request.base_url}{key}"}, 409)
        self.repositories[key] = {"private": said.get("visibility") == "private", "files": {}}
        return JSONResponse({"url": f"{request.base_url}{key}"})

    async def _preupload(self, request: Request):
        files = (await request.json())["files"]
        answers = [{"path": each["path"], "uploadMode": "regular", "shouldIgnore": False} for each in files]
        return JSONResponse({"files": answers})

    async def _commit(self, request: Request):
        key = f"{request.path_params['owner']}/{request.path_params['name']}"
        for line in (await request.body()).splitlines():
            said = json.loads(line)
            if said["key"] == "header":
                self.messages.append(said["value"]["summary"])
            elif said["key"] == "file":
                content = base64.b64decode(said["value"]["content"])
                self.repositories[key]["files"][said["value"]["path"]] = content
        url = f"{request.base_url}{key}/commit/{len(self.messages)}"
        return JSONResponse({"commitUrl": url, "commitOid": f"{len(self.messages):040x}", "success": True})

    async def _info(self, request: Request):
        key = f"{request.path_params['owner']}/{request.path_params['name']}"
        return JSONResponse({"id": key, "sha": f"{len(self.messages):040x}", "siblings": []})

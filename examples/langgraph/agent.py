"""A LangGraph graph of two nodes: the model, and the tools of the episode."""

from __future__ import annotations

import asyncio

from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from sandbox_client.agent import AgentEpisode


async def solve(episode: AgentEpisode) -> None:
    """Play one episode."""
    tools = [_tool(episode, tool["function"]) for tool in episode.tools]
    model = ChatOpenAI(model=episode.model, base_url=episode.base_url, api_key=episode.api_key)
    bound = model.bind_tools(tools)

    async def answer(state: MessagesState) -> dict:
        return {"messages": [await bound.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", answer)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    await graph.compile().ainvoke({"messages": list(episode.messages)}, {"recursion_limit": 100})


def _tool(episode: AgentEpisode, function: dict) -> StructuredTool:
    async def call(**arguments: object) -> str:
        return await episode.call_tool(function["name"], arguments)

    return StructuredTool(
        name=function["name"],
        description=function["description"],
        args_schema=function["parameters"],
        coroutine=call,
    )


async def main() -> None:
    """Play the episode that the environment variables name."""
    async with AgentEpisode.from_environment() as episode:
        await solve(episode)


if __name__ == "__main__":
    asyncio.run(main())

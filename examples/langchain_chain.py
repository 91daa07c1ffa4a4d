"""LangChain: a consensus is a chat model with another name; chains, prompts and parsers stay as they are.

pip install langchain-openai
"""

from __future__ import annotations

from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI

from local_server import serving


def main() -> None:
    with serving() as url:
        model = ChatOpenAI(model="built-in@sure", base_url=url, api_key="none")
        chain = ChatPromptTemplate.from_template("What is {a}*{b}+{c}?") | model | StrOutputParser()
        for reply in chain.batch([{"a": 19, "b": 21, "c": 4}, {"a": 125, "b": 8, "c": 17}]):
            print(reply.splitlines()[-1])


if __name__ == "__main__":
    main()

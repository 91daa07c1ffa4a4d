"""litellm: the endpoint as an OpenAI-compatible provider, so that proxies and routers of litellm can use it.

pip install litellm   # in an environment of its own: it needs an older openai
"""

from __future__ import annotations

import os

from local_server import serving

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # it downloads a list of prices otherwise
import litellm


def main() -> None:
    with serving() as url:
        reply = litellm.completion(
            model="openai/built-in@ac",
            api_base=url,
            api_key="none",
            messages=[{"role": "user", "content": "Solve for x: 5(8x-61)+630=17x+3614."}],
        )
        print(reply.choices[0].message.content.splitlines()[-1])
        print("tokens of all paths:", reply.usage.completion_tokens)


if __name__ == "__main__":
    main()

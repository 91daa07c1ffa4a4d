"""its_hub: its three kinds of self-consistency with its own client, or its stop test on recorded answers."""

from __future__ import annotations

import asyncio
from collections import Counter

from its_hub.core.algorithms.adaptive_self_consistency import AdaptiveSelfConsistency
from its_hub.core.algorithms.beta_self_consistency import BetaSelfConsistency
from its_hub.core.algorithms.self_consistency import SelfConsistency, create_regex_projection_function
from its_hub.core.lms.openai_lm import OpenAICompatibleLanguageModel
from job import BOXED, Job, boxed, emit, timed

ALGORITHMS = {
    "its_hub sc": SelfConsistency,
    "its_hub adaptive": AdaptiveSelfConsistency,
    "its_hub beta": BetaSelfConsistency,
}
PATIENCE = 60.0


async def live(job: Job) -> None:
    """One question after another; a question that takes a minute counts as hung and gets no answer."""
    model = OpenAICompatibleLanguageModel(f"{job.url}/v1", "none", job.model, temperature=0.6)
    answer = create_regex_projection_function(BOXED)
    algorithm = ALGORITHMS[job.system](consistency_space_projection_func=answer)
    for question in job.questions:
        inference = algorithm.ainfer(model, question["question"], job.paths, return_response_only=False)
        try:
            result = await asyncio.wait_for(inference, PATIENCE)
        except TimeoutError:
            emit(id=question["id"], answer=None, note=f"no answer after {PATIENCE:.0f} s")
            algorithm = ALGORITHMS[job.system](
                consistency_space_projection_func=create_regex_projection_function(BOXED)
            )
            continue
        emit(id=question["id"], answer=boxed(result.the_one["content"]), claimed=result.usage.completion_tokens)
    await model.close()


def rules(job: Job) -> None:
    """After how many answers its Beta test stops, abstentions left out; None if it does not."""
    for question in job.questions:
        counts: Counter[str] = Counter()
        stopped = None
        for number, path in enumerate(question["paths"][: job.paths], 1):
            if path["answer"] is not None:
                counts[path["answer"]] += 1
                first, second = ([count for _, count in counts.most_common(2)] + [0])[:2]
                if BetaSelfConsistency.beta_stopping_probability(first, second) >= 0.95:
                    stopped = number
                    break
        emit(id=question["id"], stopped=stopped)


job = Job.read()
with timed():
    if job.system.endswith("rules"):
        rules(job)
    else:
        asyncio.run(live(job))

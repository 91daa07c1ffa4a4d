"""Strategy strings: parsing and rendering are inverse, and bad specs are refused with the known names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureenough.core.options import COUNT, option
from sureenough.core.pruning import Keep, Stratified, TwoTiers, no_gate
from sureenough.core.stop_rules import Posterior, Share, StopRule, never
from sureenough.core.strategy import Strategy
from sureenough.core.weights import ByConfidence, by_count
from sureenough.errors import UsageError
from sureenough.spec import options, parse, render, resolve
from sureenough.strategies import STRATEGIES

DOCUMENTED = {
    "sc": "weigh beta",
    "ac": "tau weigh beta",
    "esc": "batch weigh beta",
    "cisc": "signal temperature",
    "reasc": "gate tau signal temperature",
    "deepconf-low": "warmup tau keep",
    "deepconf-high": "warmup tau keep",
    "ddc": "warmup weight gamma tau eta trust drop risk per",
    "ddc-unweighted": "warmup weight gamma tau eta trust drop risk per",
    "ddc-no-width": "warmup weight eta trust drop risk per",
    "ddc-no-trend": "warmup weight gamma tau trust drop per",
    "ddc-no-depth": "warmup weight gamma tau",
    "certified": "alpha weigh beta",
    "sure": "delta least weigh beta",
    "predictive+sc": "weigh beta runs rollouts lookahead rollout_tokens heat select max_steps",
    "mur+sc": "weigh beta runs candidates momentum scale heat line_tokens max_steps",
    "phi+sc": "weigh beta runs beams rollouts min_steps max_steps clusters share tau1 tau2",
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_options_are_the_documented_ones(name: str) -> None:
    assert set(options(STRATEGIES[name])) == set(DOCUMENTED[name].split())


@pytest.mark.parametrize(
    "text",
    [
        *STRATEGIES,
        "ddc:warmup=8,tau=0.99,weight=mean",
        "ddc:tau=0.99,warmup=8",
        "ddc:warmup=16,weight=mean",
        "ddc:risk=p90",
        "ddc:risk=p99.5,eta=0",
        "ddc:risk=p100,trust=100,drop=0",
        "esc:batch=7",
        "deepconf-low:keep=20",
        "ac:tau=0.9",
        "sc:weigh=learned",
        "ac:weigh=tail,beta=0.6",
        "cisc:signal=tail,temperature=2",
        "phi+sure",
        "predictive+ac:tau=0.9,runs=4",
        "phi+ddc-no-depth:warmup=4,tau1=0.1",
        "mur+sure:candidates=2,delta=0.02",
    ],
)
def test_a_string_comes_back_as_it_was(text: str) -> None:
    assert render(parse(text)) == text
    assert parse(render(parse(text))) == parse(text)


def test_what_a_string_means() -> None:
    strategy = parse(" ddc:warmup=8, tau=0.99 ,weight=mean,risk=p95,trust=80 ")
    assert strategy.warmup == 8
    assert strategy.stop == Posterior(tau=0.99)
    assert strategy.weigh == ByConfidence("mean")
    assert strategy.calibrate == Stratified(trust=80.0, risk="p95")
    assert parse("deepconf-high").calibrate == Keep(90.0)
    assert resolve(strategy) is strategy


@given(
    warmup=st.integers(1, 999),
    tau=st.floats(0, 1, allow_subnormal=False),
    eta=st.floats(0, 100),
    weight=st.sampled_from(["raw", "mean", "unit"]),
)
def test_strategies_made_in_python_have_a_string_that_makes_them(
    warmup: int, tau: float, eta: float, weight: str
) -> None:
    made = replace(
        STRATEGIES["ddc"],
        warmup=warmup,
        stop=Posterior(tau=tau),
        calibrate=Stratified(eta=eta),
        weigh=ByConfidence(weight),
    )
    assert parse(render(made)) == made


def test_a_strategy_of_the_callers_own_is_called_by_its_name() -> None:
    assert render(Strategy("mine", warmup=3)) == "mine"


@pytest.mark.parametrize(
    ("of", "changes", "expected"),
    [
        ("sc", {"warmup": 5}, "sc (modified: warmup)"),
        ("ddc:tau=0.9", {"stop": never}, "ddc (modified: stop)"),
        ("ddc", {"stop": never}, "ddc (modified: stop)"),
        ("ddc", {"stop": Share(tau=0.5)}, "ddc (modified: stop)"),
        ("ddc", {"stop": Posterior(tau=0.99, weighted=False)}, "ddc (modified: stop)"),
        ("ddc", {"stop": lambda votes: True}, "ddc (modified: stop)"),
        ("ddc", {"weigh": by_count, "warmup": 8}, "ddc:warmup=8 (modified: weigh)"),
        ("ddc", {"calibrate": TwoTiers(), "stop": never}, "ddc (modified: calibrate, stop)"),
        ("ddc", {"calibrate": no_gate, "warmup": 0}, "ddc (modified: warmup, calibrate)"),
        ("ddc", {"stop": Posterior(tau=0.99)}, "ddc:tau=0.99"),
        ("ddc", {"summary": "mine"}, "ddc"),
    ],
)
def test_a_strategy_that_no_option_can_express_is_marked(of: str, changes: dict[str, Any], expected: str) -> None:
    assert render(replace(parse(of), **changes)) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dcc", "did you mean 'ddc'"),
        ("zzz", "known: sc, ac, esc"),
        ("", "unknown strategy ''"),
        ("ddc:", "expected option=value"),
        ("ddc:tau", "expected option=value"),
        ("ddc:=1", "expected option=value"),
        ("ddc:taw=1", "no option 'taw' (did you mean 'tau'?); known: warmup, trust"),
        ("sc:tau=0.9", "sc has no option 'tau'; known: weigh, beta"),
        ("ddc-no-trend:risk=p90", "no option 'risk'"),
        ("ddc:tau=high", "tau is a number"),
        ("ddc:tau=nan", "tau is a finite number"),
        ("ddc:warmup=8.5", "warmup is a whole number"),
        ("ddc:warmup=0", "warmup is a whole number of at least 1"),
        ("ddc:tau=2", "tau is a number from 0 to 1"),
        ("ddc:weight=heavy", "weight is raw or mean or unit"),
        ("ddc:risk=p101", "risk is tukey, or p and a percentile"),
        ("ddc:tau=0.9,tau=0.8", "tau is given twice"),
    ],
)
def test_bad_specs_are_refused_with_the_known_names(text: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse(text)
    assert message in str(refused.value)


def test_two_parts_with_an_option_of_one_name_are_refused() -> None:
    @dataclass(frozen=True)
    class Cooling(StopRule):
        temperature: float = option(1.0, "at which it stops", COUNT)

    twice = replace(STRATEGIES["cisc"], name="twice", stop=Cooling())
    with pytest.raises(UsageError, match="two parts of the strategy twice have the option temperature; rename one"):
        render(twice)


def test_a_strategy_is_a_string_or_a_strategy() -> None:
    with pytest.raises(UsageError, match="not 5"):
        resolve(5)  # type: ignore[arg-type]

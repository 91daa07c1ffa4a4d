__version__: str
__all__: list[str]

from sureenough.answers.kinds import Judge as Judge
from sureenough.answers.kinds import judge as judge
from sureenough.api import aask as aask
from sureenough.api import ask as ask
from sureenough.api import replay as replay
from sureenough.bench import Comparison as Comparison
from sureenough.bench import Row as Row
from sureenough.bench import compare as compare
from sureenough.core.events import Fate as Fate
from sureenough.core.events import Token as Token
from sureenough.core.outcome import Outcome as Outcome
from sureenough.core.outcome import Spent as Spent
from sureenough.core.pruning import Tier as Tier
from sureenough.core.session import Session as Session
from sureenough.core.strategy import Strategy as Strategy
from sureenough.core.weights import LearnerState as LearnerState
from sureenough.engines.base import Prompt as Prompt
from sureenough.engines.local.engine import Local as Local
from sureenough.engines.openai.client import OpenAI as OpenAI
from sureenough.errors import CannotExtend as CannotExtend
from sureenough.errors import EngineError as EngineError
from sureenough.errors import EngineRejected as EngineRejected
from sureenough.errors import EngineUnavailable as EngineUnavailable
from sureenough.errors import MissingLogprobs as MissingLogprobs
from sureenough.errors import ProtocolError as ProtocolError
from sureenough.errors import SureEnoughError as SureEnoughError
from sureenough.errors import TraceError as TraceError
from sureenough.errors import UsageError as UsageError
from sureenough.importers import import_pools as import_pools
from sureenough.pools import Pool as Pool
from sureenough.pools import RecordedPath as RecordedPath
from sureenough.strategies import STRATEGIES as STRATEGIES

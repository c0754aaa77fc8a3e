"""The routes by their document (schemathesis), asked about what is there: how many answers are no 404 is told."""

import json
import random
from collections import Counter
from typing import Any

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode

from tests.contract.checks import CHECKS
from tests.fuzz.house import PATIENCE, SLOW, House
from tests.fuzz.served import FRAMING, NAMES, PLACES, WAIT
from treadle_server.api.openapi import document
from treadle_server.api.routes import ENDPOINTS
from treadle_server.operations.encode import dumps

AT_ONCE = 20
"""Requests to a route before the next one has its turn."""


class Deep:
    """Asks every route in turn."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._session = requests.Session()
        self._schema = schemathesis.openapi.from_dict(json.loads(dumps(document(ENDPOINTS))))
        self.operations = [found.ok() for found in self._schema.get_all_operations()]
        self.statuses: Counter[int] = Counter()

    def turn(self, operation: Any, number: int) -> None:
        """Ask one route as the document allows, and otherwise."""
        case = operation.as_strategy(generation_mode=GenerationMode.POSITIVE)
        if operation.query or operation.body:
            case = st.one_of(case, case, operation.as_strategy(generation_mode=GenerationMode.NEGATIVE))

        @seed(number)
        @settings(
            max_examples=AT_ONCE,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate,),
        )
        @given(case=case, choice=st.integers(0, 2**16))
        def asked(case: Any, choice: int) -> None:
            self._ask(case, random.Random(choice))

        asked()

    def _ask(self, case: Any, chance: random.Random) -> None:
        before = case.path.split("/{name", 1)[0].rsplit("/", 1)[-1]
        known = PLACES | {"name": NAMES.get(before, ["forbidden"]), "run_id": ["0"]}
        for name in case.path_parameters or {}:
            if name in known and chance.random() < 0.95:
                case.path_parameters[name] = self._house.named(chance.choice(known[name]))
        if isinstance(case.body, dict):
            self._deepen(case)
        headers = {"Authorization": f"Bearer {self._house.served.token}"}
        for name in [name for name in case.headers or {} if name.title() in FRAMING]:
            del case.headers[name]
        url = self._house.served.url
        answer = case.call(base_url=url, session=self._session, headers=headers, timeout=PATIENCE * SLOW)
        self.statuses[answer.status_code] += 1
        case.validate_response(answer, checks=CHECKS, headers=headers)

    def _deepen(self, case: Any) -> None:
        if "worker_id" in case.body:
            case.body["worker_id"] = self._house.named("$worker")
        if "job" in case.body and isinstance(case.body["job"], str):
            case.body["job"] = "lab:tasks:add"
        if case.path == "/v1/tasks/claim":
            case.body["wait"] = WAIT

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

"""What is seen of the real thing, held against what the model has."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from tests.model.operations.base import LIMIT, ROOMS, Request, task_seen
from tests.model.reference import Treadle
from tests.model.sites import Site
from tests.model.things import ROOT
from tests.model.worlds import World

MOST = 500
"""Tasks of a program at most: a page."""


class Differs(AssertionError):
    """The model and the real thing part."""


def differences(expected: Any, found: Any, path: str = "") -> list[str]:
    """Return where two values differ, a line each."""
    if isinstance(expected, dict) and isinstance(found, dict):
        keys = sorted(expected.keys() | found.keys(), key=str)
        return [
            line
            for key in keys
            for line in differences(expected.get(key, "(absent)"), found.get(key, "(absent)"), f"{path}.{key}")
        ]
    if isinstance(expected, list | tuple) and isinstance(found, list | tuple) and len(expected) == len(found):
        pairs = zip(expected, found, strict=True)
        return [line for i, (one, other) in enumerate(pairs) for line in differences(one, other, f"{path}[{i}]")]
    return [] if expected == found else [f"{path or 'value'}: the model says {expected!r}, the server {found!r}"]


def check(expected: Any, found: Any, what: str) -> None:
    """Raise `Differs` unless they are equal."""
    if lines := differences(expected, found):
        raise Differs("\n  ".join([what, *lines[:20]]))


class Looking:
    """The model beside the servers, and all that can be seen of both."""

    def __init__(self, world: World, sites: list[Site]) -> None:
        self.world = world
        self.sites = sites
        self.model = Treadle()
        self.model.sweep(world.now(), world.passed())

    def _shown(self) -> dict[str, Any]:
        return {task.id: self.model.shown(task) for task in self.model.tasks.values()}

    async def _get(self, site: Site, path: str) -> Any:
        status, body = await site.ask(Request(ROOT, "GET", path))
        assert status == 200, body
        return body

    async def _reload(self, site: Site) -> None:
        """Read everything anew, as an observer is told to after a restart, and after a commit that was not answered."""
        tasks = await self._get(site, f"/v1/tasks?limit={MOST}")
        site.told = {one["id"]: (one["version"], one["status"]) for one in tasks["items"]}

    async def look(self, site: Site) -> None:
        """Compare every task with its place, and what was told of it."""
        tasks = await self._get(site, f"/v1/tasks?limit={MOST}")
        found = {one["id"]: task_seen(one) for one in tasks["items"]}
        check(self._shown(), found, "the tasks differ")
        told = {task_id: max(one.told.get(task_id, (0, "")) for one in self.sites) for task_id in found}
        check({one["id"]: (one["version"], one["status"]) for one in found.values()}, told, "the events differ")
        self._check_waiting(tasks["items"])
        self._check_invariants()

    def _check_waiting(self, items: list[Any]) -> None:
        """Who is said to wait for a limit does not fit: nobody is left behind when there is room."""
        for one in items:
            named = [limit for limit in one["blocked_by"] or () if limit.startswith(LIMIT)]
            if named and self.model.surely_fits(self.model.tasks[one["id"]], self.world.now()):
                raise Differs(f"there is room for {one['id']}, and the server says that it waits for {named}")

    async def look_around(self, site: Site) -> None:
        """Compare every queue's counts, every worker and every target."""
        await self._look_at_jobs(site)
        await self._look_at_workers(site)
        await self._look_at_targets(site)
        await self._look_at_schedules(site)
        await self._look_at_limits(site)

    async def _look_at_jobs(self, site: Site) -> None:
        found: dict[str, dict[str, Any]] = {}
        for room in ("lab", "@global"):
            page = await self._get(site, f"/v1/rooms/{room}/jobs")
            found |= {one["full_name"]: one for one in page["items"]}
        jobs = {name: job for name, job in self.model.jobs.items() if not job.deleted}
        expected = {name: {"paused": job.paused, "counts": dict(self.model.counts(name))} for name, job in jobs.items()}
        seen = {
            name: {"paused": one["paused"], "counts": {status: n for status, n in one["counts"].items() if n}}
            for name, one in found.items()
        }
        check(expected, seen, "the jobs differ")

    async def _look_at_workers(self, site: Site) -> None:
        check(self.model.shown_workers(), await self._workers(site), "the workers differ")

    async def _workers(self, site: Site) -> dict[str, Any]:
        page = await self._get(site, f"/v1/workers?limit={MOST}")
        return {
            one["id"]: {
                "state": one["state"],
                "last_heartbeat": one["last_heartbeat"],
                "jobs": sorted(one["jobs"]),
                "used": one["used"],
                "running": sorted((run["task_id"], run["run_id"]) for run in one["running"]),
            }
            for one in page["items"]
        }

    async def _look_at_targets(self, site: Site) -> None:
        seen = {}
        for room in sorted({room for room, _ in self.model.targets()}):
            page = await self._get(site, f"/v1/rooms/{room}/targets?limit={MOST}")
            for one in page["items"]:
                holders = [(holder["task_id"], holder["cause"]) for holder in one["holders"]]
                told = {"holders": holders, "waiting": one["waiting"], "next_task_id": one["next_task_id"]}
                seen[one["room_id"], one["name"]] = told
        expected = self.model.targets()
        # A target that tasks were moved away from is there still.
        empty = {"holders": [], "waiting": 0, "next_task_id": None}
        check(expected, {name: one for name, one in seen.items() if name in expected or one != empty}, "targets differ")

    async def _look_at_schedules(self, site: Site) -> None:
        expected = self.model.shown_schedules()
        if not self.model.schedules:
            return
        seen = {}
        for room in ROOMS:
            page = await self._get(site, f"/v1/rooms/{room}/schedules")
            for one in page["items"]:
                key = (one["room_id"], one["name"])
                seen[key] = {name: one[name] for name in expected.get(key, one)}
        check(expected, seen, "the schedules differ")

    async def _look_at_limits(self, site: Site) -> None:
        expected = self.model.shown_limits(self.world.now())
        if not expected:
            return
        seen = {}
        for room in ROOMS:
            page = await self._get(site, f"/v1/rooms/{room}/limits")
            for one in page["items"]:
                key = (one["room_id"], one["name"])
                told = one | {"busiest": {key["key"]: self._bucket_seen(one, key) for key in one["busiest"]}}
                told["rate"] = None if one["rate"] is None else tuple(one["rate"].values())
                seen[key] = {name: told[name] for name in expected.get(key, told)}
            for name in expected.keys() & seen.keys():
                # Of the keys the busiest are shown, as far as a task has them still.
                expected[name]["busiest"] = {
                    key: one for key, one in expected[name]["busiest"].items() if key in seen[name]["busiest"]
                }
        check(expected, seen, "the limits differ")

    def _bucket_seen(self, limit: Any, key: Any) -> tuple[int, int, float | None]:
        """Return what a limit's key is used by, who waits, and its tokens as they are by now."""
        tokens, rate = key["tokens"], limit["rate"]
        if tokens is not None and key["tokens_at"] is not None:
            passed = (self.world.now() - datetime.fromisoformat(key["tokens_at"])).total_seconds()
            tokens += max(0.0, passed) * rate["count"] / rate["seconds"]
        return key["used"], key["waiting"], None if tokens is None else round(min(tokens, rate["burst"]), 6)

    def _check_invariants(self) -> None:
        """What must hold of the model itself, and so of both: G2, G4, G5."""
        for task in self.model.tasks.values():
            mine = [run for run in self.model.runs.values() if run.task_id == task.id]
            last = -1 if task.run_id is None else task.run_id
            assert sorted(run.run_id for run in mine) == list(range(last + (not task.is_leased))), "G2: a run is lost"
        for target in self.model.targets():
            live = [t for t in self.model.tasks.values() if t.is_leased and self.model.target_of(t) == target]
            holds = [hold for hold in self.model.holds.values() if hold.target == target]
            assert len(live) + len(holds) <= 1, "G5: two hold a target"

    async def look_at_runs(self) -> None:
        """Compare every run that was resolved, and every step that is kept."""
        for task in self.model.tasks.values():
            page = await self._get(self.sites[0], f"/v1/tasks/{task.id}/runs")
            expected = self.model.shown_runs(task.id)
            seen = [{name: one[name] for name in run} for one, run in zip(page["items"], expected, strict=False)]
            check(expected, seen, f"the runs of {task.id} differ")
            assert len(page["items"]) == len(expected) + task.is_leased
        self._check_steps(
            await self._steps(self.sites[0], [task.id for task in self.model.tasks.values() if task.kept])
        )

    async def _steps(self, site: Site, task_ids: Iterable[str]) -> dict[str, Any]:
        return {one: (await self._get(site, f"/v1/tasks/{one}/steps"))["items"] for one in task_ids}

    def _check_steps(self, found: dict[str, Any]) -> None:
        for task_id, steps in found.items():
            kept = [self.model.shown_step(step) for step in self.model.tasks[task_id].kept]
            check(kept, steps, f"the steps of {task_id} differ")

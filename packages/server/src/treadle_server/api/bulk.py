"""Bulk actions over HTTP: one verb, or edits, for many tasks."""

from starlette.responses import Response

from treadle_server.api.answers import answer
from treadle_server.api.call import Call
from treadle_server.operations.bulk import bulk, bulk_edit


async def act_on_many(call: Call) -> Response:
    """Apply one verb to the named tasks, or to those that match a filter now."""
    return answer(await bulk(call.ctx, call.principal, call.body))


async def edit_many(call: Call) -> Response:
    """Edit many tasks, each with its own changes."""
    return answer(await bulk_edit(call.ctx, call.principal, call.body))

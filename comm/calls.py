"""How a call of a group goes: checked, then run at once, or started as a work."""

from __future__ import annotations

from holdfast import _core
from holdfast.comm import dispatch
from holdfast.comm.membership import Membership
from holdfast.comm.requests import Request
from holdfast.comm.work import Work


class Calls(Membership):
    """What every collective and every message of a group does around its own arguments."""

    def _request(self, op: str) -> Request:
        return Request(op, self._label, self._size)

    def _go(self, request: Request, call: _core.Call, async_op: bool) -> Work | None:
        if async_op:
            return self._start(request, call)
        self._run(request, call)
        return None

    def _start(self, request: Request, call: _core.Call) -> Work:
        self._finish_sync()
        return Work(dispatch.start(self._native, self._node, request, call), request.outputs)

    def _run(self, request: Request, call: _core.Call) -> int:
        self._finish_sync()
        self._last = work = dispatch.run(self._native, self._node, request, call)
        for output in request.outputs:
            output.store()
        return work.source

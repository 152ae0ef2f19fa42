"""Requests that the gateway answers by itself, at once or in the thread of slow answers."""

from __future__ import annotations

import time
from functools import partial

from daemon.gateway import answers
from daemon.gateway.account import Answer
from daemon.gateway.answers import Healths
from daemon.gateway.logs import LogSource
from daemon.gateway.models import ModelsFolder
from daemon.gateway.replies import done
from daemon.gateway.slow import SlowAnswers
from daemon.gateway.streams import Streams
from daemon.plan import Plan
from daemon.remote import (
    Backfill,
    CheckConfig,
    FinishModel,
    ListModels,
    Log,
    Picture,
    PushModel,
    RemoveModel,
    Reply,
    Request,
    Status,
)
from daemon.runtime import RuntimeFolder


class OwnAnswers:
    """What the gateway knows, and what it finds out in the folders of the daemon.

    Args:
        plan, runtime: of the daemon.
        streams, healths, log: what has come in.
        slow: takes what may take its time.
    """

    def __init__(
        self,
        plan: Plan,
        runtime: RuntimeFolder,
        streams: Streams,
        healths: Healths,
        log: LogSource,
        slow: SlowAnswers,
    ) -> None:
        self._plan, self._runtime = plan, runtime
        self._streams, self._healths, self._log, self._slow = streams, healths, log, slow
        self._models = ModelsFolder(runtime.models)

    def answer(self, request: Request, answer: Answer) -> None:
        """Answer, now or later."""
        ask = request.ask
        if isinstance(ask, Status):
            answer(done(request, self._healths.report(time.monotonic_ns())))
        elif isinstance(ask, Backfill):
            answer(done(request, answers.backfill(self._streams.books[ask.stream], self._streams.epoch, ask)))
        elif isinstance(ask, Log):
            self._find(request, ask, answer)
        elif isinstance(ask, Picture):
            self._slow.add(request, answer, lambda: done(request, answers.take_picture(self._runtime.folder, ask)))
        elif isinstance(ask, ListModels):
            self._slow.add(request, answer, lambda: done(request, self._models.list()))
        elif isinstance(ask, PushModel | FinishModel | RemoveModel):
            self._slow.add(request, answer, lambda: self._change_models(request, ask))
        elif isinstance(ask, CheckConfig):
            self._slow.add(request, answer, lambda: answers.check(request, self._plan.path))

    def _find(self, request: Request, ask: Log, answer: Answer) -> None:
        """In what is kept in memory, or beyond it, which takes its time."""
        kept, epoch = self._streams.books["log"].all(), self._streams.epoch
        if answers.needs_history(kept, ask):
            work = partial(answers.find, kept, epoch, ask, self._log)
            self._slow.add(request, answer, lambda: done(request, work()))
        else:
            answer(done(request, answers.find(kept, epoch, ask, None)))

    def _change_models(self, request: Request, ask: PushModel | FinishModel | RemoveModel) -> Reply:
        """In the thread of slow answers, one after the other."""
        if isinstance(ask, PushModel):
            detail = self._models.push(ask)
        elif isinstance(ask, FinishModel):
            detail = self._models.finish(ask.package)
        else:
            detail = self._models.remove(ask.package, answers.packages_in_use(self._runtime.state))
        return Reply(id=request.id, status="done", detail=detail)

"""The chat itself: read a line, do what it says, tell how full the context is, until nobody wants more."""

from collections.abc import Iterable

from refold.chat import commands, turns
from refold.chat.commands import Leave, Retry
from refold.chat.desk import Desk
from refold.chat.happenings import Happening, Stopped
from refold.chat.showing import Note, size_line, warning
from refold.cli.chat.facing import Face
from refold.cli.exit_status import DONE, INTERRUPTED, status_of
from refold.errors import RefoldError


def talk(desk: Desk, face: Face, *, show_context: bool) -> int:
    """Talk until the person leaves; gives the exit status."""
    while (line := face.read()) is not None:
        if not line.strip():
            continue
        try:
            with desk.stops.heeded():
                status = _said(desk, face, line, show_context=show_context)
        except Leave:
            return DONE
        except KeyboardInterrupt:
            status = INTERRUPTED
            face.beside(Note("interrupted", "dim"))
        if status and not face.lasting:
            return status
    return DONE


def _said(desk: Desk, face: Face, line: str, *, show_context: bool) -> int:
    """Do what one line says."""
    if not commands.is_command(line):
        happenings = turns.turn(desk, commands.words_of(line))
    else:
        try:
            commands.run(desk, line)
        except Retry:
            if not turns.waiting(desk):
                face.show(Note("the last words were answered: say something new"))
                return DONE
            happenings = turns.answer(desk)
        else:
            return DONE
    status = _turned(face, happenings)
    _closing_words(desk, face, show_context=show_context)
    return status


def _turned(face: Face, happenings: Iterable[Happening]) -> int:
    """Let a turn happen; an interruption or a failure ends it and nothing else."""
    status = DONE
    try:
        with face.turning():
            for happening in happenings:
                face.happen(happening)
                status = INTERRUPTED if isinstance(happening, Stopped) else status
    except RefoldError as error:
        status = status_of(error)
        again = "; /retry sends it again" if face.lasting else ""
        face.beside(Note(f"refold: {error}{again}", "red"))
    except KeyboardInterrupt:
        status = INTERRUPTED
    return status


def _closing_words(desk: Desk, face: Face, *, show_context: bool) -> None:
    """Tell what the session told, and how full it is."""
    for note in desk.told():
        face.beside(note)
    budget = desk.budget()
    if show_context:
        face.beside(size_line(budget))
    word = warning(budget, compacts=desk.setting.compacts)
    if word is not None and (budget.ratio >= 0.8 or not desk.warned):
        face.beside(word)
    desk.warned = word is not None

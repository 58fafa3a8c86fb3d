"""`llm refold folds`, `unfold` and `recall`, for the conversations in the logs of `llm`."""

import time
from collections.abc import Callable
from typing import Any

import click


def add_commands(cli: Any) -> None:
    """Add the commands to `llm`."""

    @cli.group(name="refold")
    def refold_group() -> None:
        """See and undo what was folded in conversations with refold/ models."""

    conversation = click.option(
        "cid", "--cid", "--conversation", help="Id of the conversation; by default the most recent one"
    )

    @refold_group.command(name="folds")
    @conversation
    def folds(cid: str | None) -> None:
        """List the folds of a conversation."""
        made = _open_session(cid).folds()
        if not made:
            click.echo("Nothing is folded.")
        for fold in made:
            click.echo(_format_fold(fold))

    @refold_group.command(name="unfold")
    @click.argument("fold", required=False)
    @conversation
    def unfold(fold: str | None, cid: str | None) -> None:
        """Show the messages of a fold to the model again; by default those of the latest."""
        name = _run(_open_session(cid).unfold, fold)
        click.echo(f"Unfolded {name}." if name else "Nothing is folded.")

    @refold_group.command(name="recall")
    @click.argument("query")
    @conversation
    def recall(query: str, cid: str | None) -> None:
        """Search a conversation, or read messages by number: #12 or #12-#57."""
        asked = {"handle": query} if query.startswith("#") else {"query": query}
        click.echo(_open_session(cid).answer_recall(asked))


def _open_session(cid: str | None) -> Any:
    from llm.cli import load_conversation

    from llm_refold.adapter import open_adapter

    if cid is None:
        latest = load_conversation(None)
        if latest is None:
            raise click.ClickException("There is no conversation in the logs: start one with llm chat")
        cid = latest.id
    return _run(open_adapter().session, cid)


def _run(call: Callable[..., Any], *arguments: Any) -> Any:
    from refold import RefoldError

    try:
        return call(*arguments)
    except RefoldError as error:
        raise click.ClickException(str(error)) from error


def _format_fold(fold: Any) -> str:
    state = "stands" if fold.standing else "unfolded"
    if fold.covered_by:
        state = f"covered by {fold.covered_by[:12]}"
    made = time.strftime("%Y-%m-%d %H:%M", time.localtime(fold.at))
    sizes = f"{fold.tokens_before:,} -> {fold.tokens_after:,} tokens"
    return f"{fold.name[:12]}  {fold.handle}  {sizes}  {', '.join(fold.stages)}  {made}  {state}"

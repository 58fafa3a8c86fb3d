"""Run a campaign at a terminal."""

import argparse
import json
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "tests" / name) for name in ("", "gateway")]

from bench.gateway_load import __doc__ as about  # noqa: E402  # after the path is set
from bench.gateway_load.campaign import Plan, campaign  # noqa: E402


def main() -> None:
    """Run it, print the numbers, and exit 1 if anything was found wrong."""
    parser = argparse.ArgumentParser(description=(about or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--agents", type=int, default=6)
    parser.add_argument("--pause", type=float, default=1.0, help="seconds between two requests of an agent")
    parser.add_argument("--kill-every", type=float, default=20.0, help="seconds between kills")
    parser.add_argument("--steps", type=int, default=50, help="tool steps of a conversation")
    parser.add_argument("--summary-seconds", type=float, default=3.0, help="seconds that a summary takes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--log", type=Path, help="a file for each question to the summariser")
    options = parser.parse_args()
    plan = Plan(
        seconds=options.seconds,
        agents=options.agents,
        pause=options.pause,
        kill_every=options.kill_every,
        steps=options.steps,
        seed=options.seed,
        summary_seconds=options.summary_seconds,
    )
    found = campaign(plan)
    asks = found.pop("asks")
    if options.log:
        options.log.write_text("".join(json.dumps(ask) + "\n" for ask in asks), encoding="utf-8")
    text = json.dumps(found, indent=2)
    print(text)
    if options.json:
        options.json.write_text(text + "\n", encoding="utf-8")
    sys.exit(1 if found["wrong"] or any(found["exit_codes"]) or not found["kills"] else 0)


if __name__ == "__main__":
    main()

"""A stage as another package would bring one."""

from refold.core.compaction.task import Step, replace_runs


class Last:
    """A stage that keeps the last message alone."""

    name = "last"

    def __init__(self, keep, options):
        self.keep, self.options = keep, options

    def __call__(self, task):
        segment = self.keep.segment(task.measured)
        return Step(
            replace_runs(task, task.leaving(segment), (), self.name, str(self.options["depth"])), "done"
        )
